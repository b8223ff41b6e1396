"""The names of the files in the folder of ``--out``."""

RESULTS_JSON, RESULTS_CSV, REPORT_HTML, PLOTS = ("results.json", "results.csv", "report.html", "plots")
