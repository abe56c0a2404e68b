"""Documents written by the tools that write such documents, each with the words ``Chapter One`` and ``quick fox``."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from functools import cache

__all__ = ["DOCUMENTS", "archive", "changed_archive", "photo"]


def archive(members: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as written:
        for name, data in members.items():
            written.writestr(name, data)
    return file.getvalue()


def changed_archive(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return an archive with one member changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = {member.filename: old.read(member) for member in old.infolist()}
    return archive(members | {name: change(members[name])})


@cache
def docx() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Chapter One", 1)
    document.add_paragraph("The quick fox and ").add_run("bold words").bold = True
    for point in ("first", "second"):
        document.add_paragraph(point, style="List Bullet")
    table = document.add_table(2, 2)
    for row, values in enumerate((("name", "price"), ("tea", "3 | 4"))):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    for chapter in range(2, 6):
        document.add_heading(f"Chapter {chapter}", 1)
        document.add_paragraph("word " * 600)
    return saved(document)


def saved(document: object) -> bytes:
    file = io.BytesIO()
    document.save(file)  # type: ignore[attr-defined]
    return file.getvalue()


@cache
def xlsx() -> bytes:
    import datetime

    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Chapter One"
    sheet["B2"], sheet["C2"], sheet["B3"], sheet["C3"] = "quick fox", "a|b", 1.5, 2.0
    sheet["B4"], sheet["C4"] = datetime.date(2026, 11, 22), True
    book.create_sheet("Other").append(["second sheet"])
    return saved(book)


@cache
def pptx() -> bytes:
    from pptx import Presentation
    from pptx.util import Inches

    book = Presentation()
    for title, text in (("Chapter One", "quick fox\nsecond line"), ("Other", "slide two")):
        slide = book.slides.add_slide(book.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
        slide.notes_slide.notes_text_frame.text = f"say {title}"
    table = slide.shapes.add_table(2, 2, *map(Inches, (1, 1, 3, 1))).table
    table.cell(0, 0).text, table.cell(1, 1).text = "head", "cell"
    return saved(book)


@cache
def pdf(password: str | None = None, pages: int = 3) -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file, encrypt=password)
    for number in range(1, pages + 1):
        canvas.drawString(72, 700, "Chapter One" if number == 1 else f"Page {number}")
        canvas.drawString(72, 680, "The quick fox jumps over it.")
        canvas.showPage()
    canvas.save()
    return file.getvalue()


@cache
def odt() -> bytes:
    from odf import table, text
    from odf.opendocument import OpenDocumentText

    document = OpenDocumentText()
    document.text.addElement(text.H(outlinelevel=1, text="Chapter One"))
    paragraph = text.P(text="The quick fox, ")
    paragraph.addElement(text.A(type="simple", href="https://example.com/", text="a link"))
    document.text.addElement(paragraph)
    points = text.List()
    for point in ("first", "second"):
        item = text.ListItem()
        item.addElement(text.P(text=point))
        points.addElement(item)
    document.text.addElement(points)
    found = table.Table()
    for values in (("name", "price"), ("tea", "3")):
        row = table.TableRow()
        for value in values:
            cell = table.TableCell()
            cell.addElement(text.P(text=value))
            row.addElement(cell)
        found.addElement(row)
    document.text.addElement(found)
    return written(document)


def written(document: object) -> bytes:
    file = io.BytesIO()
    document.write(file)  # type: ignore[attr-defined]
    return file.getvalue()


@cache
def ods() -> bytes:
    from odf import table, text
    from odf.opendocument import OpenDocumentSpreadsheet

    book = OpenDocumentSpreadsheet()
    for name, value in (("Chapter One", "quick fox"), ("Other", "second sheet")):
        sheet, row, cell = table.Table(name=name), table.TableRow(), table.TableCell(valuetype="string")
        cell.addElement(text.P(text=value))
        row.addElement(cell)
        sheet.addElement(row)
        book.spreadsheet.addElement(sheet)
    return written(book)


@cache
def odp() -> bytes:
    from odf import draw, style, text
    from odf.opendocument import OpenDocumentPresentation

    book = OpenDocumentPresentation()
    layout = style.PageLayout(name="layout")
    book.automaticstyles.addElement(layout)
    master = style.MasterPage(name="master", pagelayoutname=layout)
    book.masterstyles.addElement(master)
    for title, words in (("Chapter One", "quick fox"), ("Other", "slide two")):
        page = draw.Page(masterpagename=master)
        for kind, value in (("title", title), ("outline", words)):
            frame = draw.Frame()
            frame.setAttrNS("urn:oasis:names:tc:opendocument:xmlns:presentation:1.0", "class", kind)
            box = draw.TextBox()
            box.addElement(text.P(text=value))
            frame.addElement(box)
            page.addElement(frame)
        book.presentation.addElement(page)
    return written(book)


@cache
def epub() -> bytes:
    items = "".join(f'<item id="c{n}" href="text/c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in (1, 2))
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>{}</h1><p>{}</p></body></html>'
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest>'
            '<spine><itemref idref="c2"/><itemref idref="c1"/></spine></package>',
            "OEBPS/text/c1.xhtml": page.format("Other", "second chapter"),
            "OEBPS/text/c2.xhtml": page.format("Chapter One", "quick <b>fox</b>"),
        }
    )


@cache
def html() -> bytes:
    return (
        b"<title>Site</title><nav>menu</nav><h1>Chapter One</h1><p>The quick fox, <a href=/x>a link</a>.</p>"
        b"<script>steal()</script><img src='data:image/png;base64,AAAA' alt='a fox'>"
        b"<table><tr><th>name<th>price<tr><td>tea<td>3</table>"
    )


@cache
def ipynb() -> bytes:
    output = {"output_type": "stream", "name": "stdout", "text": ["4\n"]}
    picture = {"output_type": "display_data", "data": {"image/png": "AAAA"}}
    cells = [
        {"cell_type": "markdown", "source": ["# Chapter One\n", "quick fox"]},
        {"cell_type": "code", "source": "print(2 + 2)", "outputs": [output, picture]},
        {"cell_type": "code", "source": "'```'", "outputs": [{"output_type": "error", "ename": "E", "evalue": "bad"}]},
    ]
    metadata = {"language_info": {"name": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}).encode()


@cache
def eml(subject: str = "Chapter One") -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ada <ada@example.com>", "bo@example.com", f"{subject} 糖"
    message.set_content("The quick fox says hello.")
    message.add_alternative("<p>The quick <b>HTML</b> fox</p>", subtype="html")
    message.add_attachment(b"x" * 2000, maintype="application", subtype="pdf", filename="räksmörgås.pdf")
    return message.as_bytes()


@cache
def mbox() -> bytes:
    return b"".join(b"From ada@example.com Mon\n" + eml(one) + b"\n\n" for one in ("Chapter One", "Other"))


@cache
def rtf() -> bytes:
    """A document with escaped letters, a link, a table, and a picture."""
    return (
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\author Ada}}{\b Chapter One}\par "
        rb"The quick fox jumps over caf\'e9 \u8211? \u31958?.\par "
        rb"""{\field{\*\fldinst{HYPERLINK "https://example.com/"}}{\fldrslt a link}}\par """
        rb"{\pict\pngblip 89504e470d0a1a0a}"
        rb"\trowd\cellx1000\cellx2000 name\cell price\cell\row \trowd\cellx1000\cellx2000 tea\cell 3\cell\row}"
    )


def photo(format: str = "JPEG", location: bool = True) -> bytes:
    """Return a picture of 40 x 30 pixels with EXIF: when, by which camera, which way up, and where."""
    from PIL import Image

    exif = Image.Exif()
    exif[0x010F], exif[0x0110], exif[0x0112] = "Carrel Optics", "Fox 1", 6
    exif.get_ifd(0x8769)[0x9003] = "2026:11:22 10:30:00"
    if location:
        exif.get_ifd(0x8825).update({1: "S", 2: (48.0, 30.0, 0.0), 3: "E", 4: (9.0, 0.0, 36.0)})
    file = io.BytesIO()
    Image.new("RGB", (40, 30)).save(file, format, exif=exif)
    return file.getvalue()


DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "docx": docx,
    "xlsx": xlsx,
    "pptx": pptx,
    "pdf": pdf,
    "odt": odt,
    "ods": ods,
    "odp": odp,
    "epub": epub,
    "html": html,
    "ipynb": ipynb,
    "eml": eml,
    "mbox": mbox,
    "rtf": rtf,
}
"""Functions that write a document, by its format."""
