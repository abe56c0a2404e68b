"""Short texts in many languages, of 100 bytes and more, and the encodings that are usual for them."""

__all__ = ["ENCODED"]

TEXTS = (
    (
        "図書館は午前九時に開きます。新しい本は入口の近くの棚に並んでいます。\n"
        "カタカナの名前も検索できます。雨が降ったので、公園には誰もいなかった。\n",
        ("cp932", "euc_jp", "iso2022_jp"),
    ),
    (
        "도서관은 오전 아홉 시에 문을 엽니다. 새 책은 입구 옆의 책장에 있습니다.\n비가 와서 공원에는 아무도 없었다.\n",
        ("euc_kr",),
    ),
    (
        "图书馆上午九点开门。新书摆放在入口旁边的书架上。\n因为下雨,公园里没有人。如果发生错误,请与管理员联系。\n",
        ("gb18030",),
    ),
    (
        "圖書館上午九點開門。新書擺放在入口旁邊的書架上。\n因為下雨,公園裡沒有人。如果發生錯誤,請與管理員聯絡。\n",
        ("big5",),
    ),
    (
        "Библиотека открывается в девять часов утра. Новые книги стоят на полке у входа.\n"
        "Шёл дождь, и в парке никого не было.\n",
        ("cp1251", "koi8_r", "iso8859_5", "cp866", "mac_cyrillic"),
    ),
    (
        "Бібліотека відкривається о дев'ятій годині ранку.\nЙшов дощ, і в парку нікого не було. Їжак їв грушу.\n",
        ("koi8_u",),
    ),
    (
        "Η βιβλιοθήκη ανοίγει στις εννέα το πρωί. Τα νέα βιβλία βρίσκονται στο ράφι.\n"
        "Έβρεχε και στο πάρκο δεν ήταν κανείς.\n",
        ("cp1253", "iso8859_7"),
    ),
    (
        "Kütüphane sabah dokuzda açılır.\n"
        "Yağmur yağdığı için parkta kimse yoktu.\n"
        "Şehirdeki öğrenciler ücretsiz üye olabilir.\n",
        ("cp1254",),
    ),
    (
        "הספרייה נפתחת בשעה תשע בבוקר. הספרים החדשים נמצאים על המדף ליד הכניסה.\nירד גשם ובפארק לא היה איש.\n",
        ("cp1255",),
    ),
    (
        "تفتح المكتبة أبوابها في التاسعة صباحا.\nكان المطر ينزل ولم يكن في الحديقة أحد. الكتب الجديدة على الرف.\n",
        ("cp1256",),
    ),
    (
        "ห้องสมุดเปิดเวลาเก้าโมงเช้า\nฝนตกจึงไม่มีใครอยู่ในสวน หนังสือใหม่อยู่บนชั้นข้างทางเข้า\n",
        ("cp874",),
    ),
    (
        "Biblioteka jest czynna od dziewiątej rano, a nowe książki stoją na półce.\n"
        "Źródło żółtej farby znajduje się w piwnicy, więc proszę tam nie wchodzić.\n",
        ("cp1250", "iso8859_2"),
    ),
    (
        "Biblioteka atidaroma devintą valandą ryto.\nLijo, todėl parke nieko nebuvo.\nŽąsys ir ančios plaukia ežeru.\n",
        ("cp1257",),
    ),
    (
        "Größe und Gewicht stehen auf der nächsten Seite.\n"
        "Es regnete, und im Park war niemand. Schöne Grüße aus Köln.\n",
        ("latin_1",),
    ),
    (
        "Les livres sont rangés près de l’entrée.\nIl pleuvait et le parc était désert. Ça coûte 12 € au marché.\n",
        ("cp1252",),
    ),
)
ENCODED = [(encoding, text) for text, encodings in TEXTS for encoding in encodings]
