"""Stop words, in several languages: they tell nothing about the subject of a question, but the language of a text.

The language of a text is the language with the most stop words in it. For Chinese, Japanese and Korean, which are
written without spaces between words, ``without_question_words`` removes question words and polite endings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["LANGUAGES", "language_of", "stop_words_of", "without_question_words"]

#: Stop words by language, case-folded. English is the language if several have as many words in a text.
STOP_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "english": (
            "a about after all am an and any anything are as at be been before being but by can cannot could did "
            "do does doing done else every for from get gets getting give given go got had has have having he her "
            "here him his how i if in into is isn it its just know let like many may me might mine more most much "
            "must my need no not of on one only or other our out over own please same shall she should so some "
            "someone something such tell than that the their them then there these they thing this those through "
            "to too under until up upon us use used using very want was way we were what when where whether which "
            "while who whom whose why will with without won would you your"
        ),
        "german": (
            "ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis "
            "bist da dabei dadurch dafür damit dann das dass dein deine dem den der des dessen dich die dies "
            "diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es "
            "etwas euch für gegen gehen geht gibt hab habe haben hat hatte hier hin hinter ich ihm ihn ihnen ihr "
            "ihre im in ins ist ja jede jeden jeder jedes jetzt kann kannst kein keine keinen können könnte "
            "lassen lässt man mehr mein meine meinem meinen meiner mich mir mit muss müssen nach nicht nichts "
            "noch nun nur ob oder ohne sehr sein seine seit sich sie sind so sobald sollte sondern sonst um und "
            "uns unter vom von vor wann war warum was weil welche welchem welchen welcher welches wem wen wenn "
            "wer werde werden weshalb wie wieder wieso will wir wird wo wobei wofür woher wohin womit worin wozu "
            "würde zu zum zur zwischen über"
        ),
        "french": (
            "ai au aucun aussi avec avoir ce cela ces cet cette comme comment dans de des du elle en est et être "
            "eu fait faire il ils je la le les leur lui ma mais me même mes moi mon ne nos notre nous on ont ou "
            "où par pas peut plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi sa sans se "
            "ses si son sont sur ta te tes toi ton tu un une vers vos votre vous"
        ),
        "spanish": (
            "al algo ante antes aunque como con cómo cual cuando cuándo cuál de debe del desde donde dónde el "
            "ella en entre era eres es esa ese eso esta este esto está están fue ha hacer hago hasta hay la las "
            "le lo los me mi mis mucho muy más ni no nos para pero poder por porque puede puedo que qué quien "
            "quién se ser si sin sobre son su sus sí también tan te tiene tengo todo tu un una uno unos ya yo"
        ),
    }.items()
}
#: Languages whose words are stemmed, as the engine names them.
LANGUAGES = tuple(STOP_WORDS)
#: Characters of a text that tell its language.
SAMPLE = 4000
_WORDS = re.compile(r"[^\W\d_]+")
#: Small letters of ASCII, and spaces for all other characters.
_LETTERS = bytes(ord(chr(byte).lower()) if byte < 128 and chr(byte).isalpha() else 32 for byte in range(256))
_ALL = frozenset[str]().union(*STOP_WORDS.values())
_CHINESE = (
    "怎么样|怎么办|怎么|怎样|如何|为什么|什么|为何|哪些|哪个|哪里|哪种|是否|能否|能不能|可不可以|有没有|可以|请问|多少|"
    "之间|应该|需要|我想|(?<!目)的(?!确)|[吗呢吧]"
)
_JAPANESE = (
    "どうすれば|どうやって|どのように|どうして|どうしたら|どんな|どこで|どこ|どの|どれ|なぜ|なんで|いつ|何を|何が|何ですか|"
    "とは何|とは|ですか|ますか|でしょうか|したい|ください|について|できますか|できる|方法|教えて"
)
_KOREAN = (
    "어떻게|어디에서|어디서|어디에|어디|어떤|무엇을|무엇이|무엇|무슨|왜|언제|얼마나|하려면|하나요|되나요|있나요|인가요|나요|"
    "합니까|됩니까|입니까|습니까|할까요|하는 방법|방법|하는|있는|되는|수 있"
)
_QUESTION_WORDS = re.compile(f"{_CHINESE}|{_JAPANESE}|{_KOREAN}")


def stop_words_of(words: Iterable[str]) -> set[str]:
    """Return the words that are stop words in the language of most of them; the words are case-folded."""
    distinct = set(words)
    return distinct & STOP_WORDS[_language(distinct)]


def language_of(text: str) -> str:
    """Return the language of a text; English if it is in another language, or in none."""
    sample = text[:SAMPLE]
    if sample.isascii():  # the same words, in a fifth of the time
        return _language(set(sample.encode("ascii").translate(_LETTERS).decode("ascii").split()))
    return _language(set(_WORDS.findall(sample.casefold())))


def _language(words: set[str]) -> str:
    """Return the language with the most stop words among some words; one word tells nothing."""
    words = words & _ALL
    found = {language: len(words & known) for language, known in STOP_WORDS.items()}
    best = max(found, key=lambda language: found[language])
    return best if found[best] > 1 else "english"


def without_question_words(text: str) -> str:
    """Return a text with spaces in place of question words in Chinese, Japanese and Korean."""
    return text if text.isascii() else _QUESTION_WORDS.sub(" ", text)
