"""Workbooks (XLSX, XLS, ODS), by calamine. A page is a sheet; formulas are shown as their values, and not computed."""

from __future__ import annotations

import datetime
import io

from carrel.sources.documents.formats.archive import check_xml, open_archive, read_member
from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument, cell, table

__all__ = ["open_document"]

#: Characters of a sheet; rows after that are left out.
MAX_SHEET = 16 * 1024 * 1024


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a workbook.

    Raises:
        DocumentFailed: it is damaged, needs a password, or expands too much.
    """
    import python_calamine

    if format != "xls" or data.startswith(b"PK"):  # an XLSX may be called .xls
        with open_archive(data) as archive:
            if format == "ods":
                check_xml(read_member(archive, "content.xml"))  # calamine does not end where it is not well-formed
    try:
        workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    except python_calamine.PasswordError:
        raise DocumentFailed("encrypted") from None
    except python_calamine.CalamineError:
        raise DocumentFailed("damaged") from None
    names = workbook.sheet_names
    if not names:
        raise DocumentFailed("damaged")

    def page(number: int) -> str:
        name = names[number - 1]
        try:
            found = workbook.get_sheet_by_name(name)
        except python_calamine.WorksheetNotFound:  # a chart
            return f"## {cell(name)}\n"
        except python_calamine.CalamineError:
            raise DocumentFailed("damaged") from None
        size, rows = 0, list[list[str]]()
        for values in found.iter_rows():
            row = [shown(value) for value in values]
            size += sum(map(len, row)) + 3 * len(row)
            if size > MAX_SHEET:
                break
            rows.append(row)
        return f"## {cell(name)}\n\n{table(trimmed(rows))}"

    return OpenDocument(len(names), page)


def shown(value: object) -> str:
    """Return a value as the cell of a table."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat(*(" ",) if isinstance(value, datetime.datetime) else ())
    return cell(str(value))


def trimmed(rows: list[list[str]]) -> list[list[str]]:
    """Return rows without empty ones and empty columns around them."""
    rows = [row for row in rows if any(row)]
    width = max((index + 1 for row in rows for index, text in enumerate(row) if text), default=0)
    first = min((next(index for index, text in enumerate(row) if text) for row in rows), default=0)
    return [row[first:width] for row in rows]
