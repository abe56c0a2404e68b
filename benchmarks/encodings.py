"""Detection of encodings: ``python -m benchmarks.encodings`` counts the texts that each library decodes right.

The texts are made from the sentences below: prose, and source code or tables with the sentences between lines of ASCII,
of 100 to 4,000 bytes, in every encoding that is usual for the language. A text counts if it is decoded to the text that
was encoded. "carrel" is the detection that all sources use (``carrel.sources.content.text``). Other libraries are
measured if they are installed: chardet, charset-normalizer, faust-cchardet (uchardet), chardetng-py.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from carrel.sources.content.text import decode

SIZES = (100, 200, 500, 1000, 4000)

# Sentences of each language, and its encodings.
LANGUAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Japanese": (
        (
            "図書館は午前九時に開きます。",
            "新しい本は入口の近くの棚に並んでいます。",
            "返却期限は二週間後です。",
            "予約した資料は受付でお渡しします。",
            "サーバーの設定ファイルを保存できませんでした。",
            "昨日の会議の議事録をメールで送りました。",
            "カタカナの名前も検索できます。",
            "この表には顧客の住所と電話番号があります。",
            "雨が降ったので、公園には誰もいなかった。",
            "エラーが発生した場合は管理者に連絡してください。",
        ),
        ("cp932", "euc_jp", "iso2022_jp"),
    ),
    "Korean": (
        (
            "도서관은 오전 아홉 시에 문을 엽니다.",
            "새 책은 입구 옆의 책장에 있습니다.",
            "대출 기간은 이 주일입니다.",
            "예약한 자료는 안내 데스크에서 받으세요.",
            "서버 설정 파일을 저장하지 못했습니다.",
            "어제 회의록을 메일로 보냈습니다.",
            "이 표에는 고객의 주소와 전화번호가 있습니다.",
            "비가 와서 공원에는 아무도 없었다.",
            "오류가 발생하면 관리자에게 연락해 주십시오.",
            "이름으로도 검색할 수 있습니다.",
        ),
        ("cp949",),
    ),
    "Chinese, simplified": (
        (
            "图书馆上午九点开门。",
            "新书摆放在入口旁边的书架上。",
            "借阅期限为两个星期。",
            "预约的资料请到服务台领取。",
            "服务器的配置文件无法保存。",
            "昨天的会议记录已经通过邮件发送。",
            "这张表格包含客户的地址和电话号码。",
            "因为下雨,公园里没有人。",
            "如果发生错误,请与管理员联系。",
            "也可以按名称搜索。",
        ),
        ("gb18030",),
    ),
    "Chinese, traditional": (
        (
            "圖書館上午九點開門。",
            "新書擺放在入口旁邊的書架上。",
            "借閱期限為兩個星期。",
            "預約的資料請到服務臺領取。",
            "伺服器的設定檔無法儲存。",
            "昨天的會議記錄已經用電子郵件寄出。",
            "這張表格包含客戶的地址和電話號碼。",
            "因為下雨,公園裡沒有人。",
            "如果發生錯誤,請與管理員聯絡。",
            "也可以依名稱搜尋。",
        ),
        ("cp950",),
    ),
    "Russian": (
        (
            "Библиотека открывается в девять часов утра.",
            "Новые книги стоят на полке у входа.",
            "Срок возврата истекает через две недели.",
            "Заказанные материалы выдаются в читальном зале.",
            "Не удалось сохранить файл настроек сервера.",
            "Вчерашний протокол отправлен по почте.",
            "В этой таблице есть адреса и телефоны клиентов.",
            "Шёл дождь, и в парке никого не было.",
            "При ошибке обратитесь к администратору.",
            "Искать можно и по имени.",
        ),
        ("cp1251", "koi8_r", "iso8859_5", "cp866", "mac_cyrillic"),
    ),
    "Ukrainian": (
        (
            "Бібліотека відкривається о дев'ятій годині ранку.",
            "Нові книжки стоять на полиці біля входу.",
            "Термін повернення спливає за два тижні.",
            "Замовлені матеріали видають у читальній залі.",
            "Не вдалося зберегти файл налаштувань сервера.",
            "Учорашній протокол надіслано поштою.",
            "У цій таблиці є адреси та телефони клієнтів.",
            "Йшов дощ, і в парку нікого не було.",
            "Якщо сталася помилка, зверніться до адміністратора.",
        ),
        ("cp1251", "koi8_u"),
    ),
    "Greek": (
        (
            "Η βιβλιοθήκη ανοίγει στις εννέα το πρωί.",
            "Τα νέα βιβλία βρίσκονται στο ράφι δίπλα στην είσοδο.",
            "Η προθεσμία επιστροφής λήγει σε δύο εβδομάδες.",
            "Δεν ήταν δυνατή η αποθήκευση του αρχείου ρυθμίσεων.",
            "Τα πρακτικά της χθεσινής συνάντησης στάλθηκαν με μήνυμα.",
            "Ο πίνακας περιέχει διευθύνσεις και τηλέφωνα πελατών.",
            "Έβρεχε και στο πάρκο δεν ήταν κανείς.",
            "Σε περίπτωση σφάλματος καλέστε τον διαχειριστή.",
        ),
        ("cp1253", "iso8859_7"),
    ),
    "Turkish": (
        (
            "Kütüphane sabah dokuzda açılır.",
            "Yeni kitaplar girişin yanındaki rafta duruyor.",
            "İade süresi iki hafta sonra doluyor.",
            "Sunucunun ayar dosyası kaydedilemedi.",
            "Dünkü toplantının tutanağı e-posta ile gönderildi.",
            "Bu tabloda müşterilerin adresleri ve telefonları var.",
            "Yağmur yağdığı için parkta kimse yoktu.",
            "Bir hata oluşursa lütfen yöneticiye başvurunuz.",
            "Şehirdeki öğrenciler ücretsiz üye olabilir.",
        ),
        ("cp1254",),
    ),
    "Hebrew": (
        (
            "הספרייה נפתחת בשעה תשע בבוקר.",
            "הספרים החדשים נמצאים על המדף ליד הכניסה.",
            "מועד ההחזרה הוא בעוד שבועיים.",
            "לא ניתן לשמור את קובץ ההגדרות של השרת.",
            "פרוטוקול הישיבה מאתמול נשלח בדואר.",
            "בטבלה הזאת יש כתובות ומספרי טלפון של לקוחות.",
            "ירד גשם ובפארק לא היה איש.",
            "במקרה של שגיאה יש לפנות למנהל המערכת.",
        ),
        ("cp1255",),
    ),
    "Arabic": (
        (
            "تفتح المكتبة أبوابها في التاسعة صباحا.",
            "الكتب الجديدة على الرف بجانب المدخل.",
            "تنتهي مدة الإعارة بعد أسبوعين.",
            "تعذر حفظ ملف إعدادات الخادم.",
            "أرسل محضر اجتماع أمس بالبريد.",
            "يحتوي هذا الجدول على عناوين العملاء وأرقام هواتفهم.",
            "كان المطر ينزل ولم يكن في الحديقة أحد.",
            "عند حدوث خطأ يرجى الاتصال بالمسؤول.",
        ),
        ("cp1256",),
    ),
    "Thai": (
        (
            "ห้องสมุดเปิดเวลาเก้าโมงเช้า",
            "หนังสือใหม่อยู่บนชั้นข้างทางเข้า",
            "กำหนดคืนหนังสือภายในสองสัปดาห์",
            "ไม่สามารถบันทึกแฟ้มการตั้งค่าของเซิร์ฟเวอร์ได้",
            "รายงานการประชุมเมื่อวานส่งทางอีเมลแล้ว",
            "ตารางนี้มีที่อยู่และหมายเลขโทรศัพท์ของลูกค้า",
            "ฝนตกจึงไม่มีใครอยู่ในสวน",
            "หากเกิดข้อผิดพลาดโปรดติดต่อผู้ดูแลระบบ",
        ),
        ("cp874",),
    ),
    "Polish": (
        (
            "Biblioteka jest czynna od dziewiątej rano.",
            "Nowe książki stoją na półce obok wejścia.",
            "Termin zwrotu mija za dwa tygodnie.",
            "Nie udało się zapisać pliku ustawień serwera.",
            "Protokół z wczorajszego zebrania wysłano pocztą.",
            "Ta tabela zawiera adresy i numery telefonów klientów.",
            "Padał deszcz, więc w parku nikogo nie było.",
            "W razie błędu proszę skontaktować się z administratorem.",
            "Źródło żółtej farby znajduje się w piwnicy.",
        ),
        ("cp1250", "iso8859_2"),
    ),
    "Czech": (
        (
            "Knihovna se otevírá v devět hodin ráno.",
            "Nové knihy stojí na polici vedle vchodu.",
            "Lhůta pro vrácení končí za dva týdny.",
            "Soubor s nastavením serveru se nepodařilo uložit.",
            "Zápis ze včerejší schůze byl odeslán poštou.",
            "Tato tabulka obsahuje adresy a telefony zákazníků.",
            "Pršelo, a proto v parku nikdo nebyl.",
            "Při chybě se prosím obraťte na správce.",
            "Příliš žluťoučký kůň úpěl.",
        ),
        ("cp1250", "iso8859_2"),
    ),
    "Hungarian": (
        (
            "A könyvtár reggel kilenckor nyit.",
            "Az új könyvek a bejárat melletti polcon állnak.",
            "A visszahozatal határideje két hét múlva lejár.",
            "A kiszolgáló beállításait nem sikerült elmenteni.",
            "A tegnapi ülés jegyzőkönyvét elküldtük levélben.",
            "Ez a táblázat az ügyfelek címét és telefonszámát tartalmazza.",
            "Esett az eső, ezért a parkban senki sem volt.",
            "Hiba esetén forduljon a rendszergazdához.",
            "Az őszi időjárás hűvös és esős.",
        ),
        ("cp1250",),
    ),
    "Lithuanian": (
        (
            "Biblioteka atidaroma devintą valandą ryto.",
            "Naujos knygos stovi lentynoje prie įėjimo.",
            "Grąžinimo terminas baigiasi po dviejų savaičių.",
            "Nepavyko įrašyti serverio nuostatų failo.",
            "Vakarykščio posėdžio protokolas išsiųstas paštu.",
            "Šioje lentelėje yra klientų adresai ir telefonų numeriai.",
            "Lijo, todėl parke nieko nebuvo.",
            "Įvykus klaidai kreipkitės į administratorių.",
            "Žąsys ir ančios plaukia ežeru.",
        ),
        ("cp1257",),
    ),
    "German": (
        (
            "Die Bücherei öffnet um neun Uhr früh.",
            "Neue Bücher stehen im Regal neben der Tür.",
            "Die Rückgabefrist läuft in zwei Wochen ab.",
            "Die Einstellungen des Servers ließen sich nicht speichern.",
            "Das Protokoll der gestrigen Sitzung wurde verschickt.",
            "Diese Tabelle enthält Adressen und Telefonnummern der Kunden.",
            "Es regnete, und im Park war niemand.",
            "Größe und Gewicht stehen auf der nächsten Seite.",
            "Schöne Grüße aus Köln.",
        ),
        ("latin_1",),
    ),
    "French": (
        (
            "La bibliothèque ouvre à neuf heures du matin.",
            "Les nouveaux livres sont rangés près de l’entrée.",
            "Le délai de retour expire dans deux semaines.",
            "Le fichier de réglages du serveur n’a pas été enregistré.",
            "Le compte rendu de la réunion d’hier a été envoyé.",
            "Ce tableau contient les adresses et les numéros des clients.",
            "Il pleuvait et le parc était désert.",
            "En cas d’erreur, prévenez l’administrateur.",
            "Ça coûte 12 € au marché.",
        ),
        ("cp1252",),
    ),
    "Spanish": (
        (
            "La biblioteca abre a las nueve de la mañana.",
            "Los libros nuevos están en el estante junto a la entrada.",
            "El plazo de devolución termina en dos semanas.",
            "No se pudo guardar la configuración del servidor.",
            "El acta de la reunión de ayer se envió por correo.",
            "Esta tabla contiene direcciones y teléfonos de clientes.",
            "Llovía y no había nadie en el parque.",
            "¿Ocurrió algún error? Avise al administrador.",
            "El niño pequeño soñó con una araña.",
        ),
        ("latin_1",),
    ),
}
CODE = (
    "def total(rows):\n    return sum(row.price * row.count for row in rows)  # {}\n",
    "if (count > 0) {{\n    print(count);  // {}\n}}\n",
    '<td class="name">{}</td><td>42</td>\n',
    "2026-11-23 10:15:00 INFO worker-3 done in 12 ms: {}\n",
    "id;name;price\n17;{};4.50\n",
)


class Sample(NamedTuple):
    """A text, and its bytes in an encoding."""

    language: str
    encoding: str
    shape: str
    text: str
    data: bytes


def samples(each: int, chosen: random.Random) -> Iterator[Sample]:
    """Make the texts: ``each`` of every language, encoding, shape and size."""
    for language, (sentences, encodings) in LANGUAGES.items():
        for encoding in encodings:
            for shape in ("prose", "code"):
                for size in SIZES:
                    for _ in range(each):
                        text = make(sentences, shape, size, encoding, chosen)
                        yield Sample(language, encoding, shape, text, text.encode(encoding))


def make(sentences: tuple[str, ...], shape: str, size: int, encoding: str, chosen: random.Random) -> str:
    """Make a text of at least so many bytes, of sentences or of lines of code around them."""
    text = ""
    while len(text.encode(encoding)) < size:
        sentence = chosen.choice(sentences)
        if sentence.encode(encoding, "ignore").decode(encoding) != sentence:
            continue
        text += chosen.choice(CODE).format(sentence) if shape == "code" else sentence + chosen.choice(" \n")
    return text


def detectors() -> dict[str, Callable[[bytes], str | None]]:
    """Return what decodes bytes: Carrel, and each library that is installed."""
    found: dict[str, Callable[[bytes], str | None]] = {}

    def add(name: str, module: str, encoding_of: Callable[[object, bytes], str | None]) -> None:
        try:
            library = importlib.import_module(module)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            return

        def decoded(data: bytes) -> str | None:
            encoding = encoding_of(library, data)
            try:
                return None if encoding is None else data.decode(encoding)
            except (UnicodeDecodeError, LookupError):
                return None

        found[name] = decoded

    found["carrel"] = lambda data: None if (text := decode(data)) is None else text.text
    add("chardet", "chardet", lambda library, data: library.detect(data)["encoding"])  # type: ignore[attr-defined]
    add("charset-normalizer", "charset_normalizer", _normalizer)
    add("faust-cchardet", "cchardet", lambda library, data: library.detect(data)["encoding"])  # type: ignore[attr-defined]
    add("chardetng-py", "chardetng_py", lambda library, data: library.detect(data))  # type: ignore[attr-defined]
    return found


def _normalizer(library: object, data: bytes) -> str | None:
    best = library.from_bytes(data).best()  # type: ignore[attr-defined]
    return None if best is None else best.encoding


def main(arguments: list[str] | None = None) -> int:
    """Print how many texts each library decodes right, by encoding and size, and the time that it takes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encodings", description=__doc__)
    parser.add_argument("--each", type=int, default=4, help="texts of each encoding, shape and size (4)")
    options = parser.parse_args(arguments)
    texts = list(samples(options.each, random.Random(1)))
    right: dict[str, list[bool]] = {}
    seconds: dict[str, float] = {}
    for name, decoded in detectors().items():
        began = time.process_time()
        right[name] = [decoded(sample.data) == sample.text for sample in texts]
        seconds[name] = time.process_time() - began
    names = list(right)
    print(f"{'':34}{''.join(f'{name:>20}' for name in names)}")
    groups: dict[str, list[int]] = {"all": list(range(len(texts)))}
    for index, sample in enumerate(texts):
        groups.setdefault(sample.shape, []).append(index)
        size = max(size for size in SIZES if size <= len(sample.data))
        groups.setdefault(f"{size:,} bytes", []).append(index)
    for index, sample in enumerate(texts):
        groups.setdefault(f"{sample.language}, {sample.encoding}", []).append(index)
    for group, indexes in groups.items():
        counts = (sum(right[name][index] for index in indexes) for name in names)
        print(f"{group:34}" + "".join(f"{f'{count} of {len(indexes)}':>20}" for count in counts))
    print(f"{'milliseconds per text':34}" + "".join(f"{seconds[name] / len(texts) * 1000:>20.2f}" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
