"""Rows: what users pass, tables from files, answers over files."""
