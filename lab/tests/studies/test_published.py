"""The papers' numbers, as stored in the project."""

from ferry_lab.studies import published


def test_every_number_has_a_source() -> None:
    assert len(published.numbers()) > 100
    for number in published.numbers():
        assert number.source
        assert number.value > 0


def test_a_number_of_a_table() -> None:
    (found,) = [
        n for n in published.of_study("storages") if (n.system, n.operation, n.threads) == ("nfs", "cold read", "1")
    ]
    assert (found.value, found.unit, found.x, found.x_name) == (25, "MB/s", 32, "file_size_MB")
    assert "Colfax" in found.source


def test_studies_without_published_numbers() -> None:
    assert published.of_study("placements") == []
    assert published.of_study("optimizations") != []
