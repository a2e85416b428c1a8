"""Runs to one page that needs nothing beside itself.

gather.py    what the runs hold                charts.py  numbers to SVG
states.py    pictures of states                pieces.py  small pieces of HTML
headline.py  what it says first, and settings  sections.py  the other parts of the page
page.py      everything to HTML (page.html, page.css)
"""

from ploff.report.gather import ReportData, TaskMetric, gather
from ploff.report.page import render_page, write_report

__all__ = ["ReportData", "TaskMetric", "gather", "render_page", "write_report"]
