"""The papers' numbers, as stored in the project."""

from ferry_lab.studies import published


def test_every_number_has_a_source() -> None:
    assert len(published.numbers()) > 100
    for number in published.numbers():
        assert published.SOURCES[number.paper]
        assert number.value > 0


def test_a_number_of_a_table() -> None:
    (found,) = published.of_study("storages", system="nfs", operation="cold read", threads="1")
    assert (found.value, found.unit, found.x, found.x_name) == (25, "MB/s", 32, "file_size_MB")
    assert "Colfax" in published.SOURCES[found.paper]


def test_studies_without_published_numbers() -> None:
    assert published.of_study("placements") == []
    assert published.of_study("optimizations") != []
