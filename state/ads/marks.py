"""Words by which briefs mark what is to be spoken, in the product's languages.

A form is enough for most of it; these words only widen what is found, so that a missing one costs a look.
"""

from collections.abc import Mapping
from typing import Final

from callsheet.state import names

LEGAL: Final[Mapping[str, str]] = {
    "english": "legal, legal line, legal lines, legal text, legal copy, legal notice, legal disclaimer,"
    " disclaimer, disclaimers, required disclaimer, mandatory disclaimer, mandatory line, mandatory lines,"
    " mandatory text, must say, must be said, small print, fine print, terms, t&c, t&cs,"
    " terms and conditions, terms & conditions",
    "thai": "ข้อกำหนด, เงื่อนไข, ข้อความทางกฎหมาย, คำเตือน",
    "indonesian": "syarat dan ketentuan, ketentuan, catatan hukum",
    "polish": "nota prawna, informacja prawna, zastrzeżenie, zastrzeżenia, tekst prawny",
    "spanish": "aviso legal, texto legal, nota legal, términos y condiciones",
    "portuguese": "aviso legal, texto legal, nota legal, termos e condições",
    "vietnamese": "thông báo pháp lý, điều khoản, điều kiện",
    "czech": "právní upozornění, právní text, podmínky",
    "romanian": "notă legală, text legal, termeni și condiții",
    "chinese": "法律声明, 法律聲明, 免责声明, 免責聲明, 条款, 條款",
    "german": "rechtlicher hinweis, rechtliche hinweise, pflichttext, pflichthinweis, kleingedrucktes, recht",
    "french": "mentions légales, mention légale, mentions obligatoires, texte légal",
    "italian": "note legali, nota legale, testo legale, avvertenze",
    "dutch": "juridische tekst, juridische vermelding, disclaimer, voorwaarden",
    "japanese": "注意事項, 免責事項, 法的表示",
    "korean": "법적 고지, 유의사항, 면책 조항",
    "hindi": "कानूनी सूचना, नियम और शर्तें",
    "arabic": "إشعار قانوني, الشروط والأحكام",
    "turkish": "yasal uyarı, yasal metin, şartlar",
    "swedish": "juridisk text, villkor",
    "russian": "юридическая информация, правовая информация, дисклеймер",
    "ukrainian": "юридична інформація, правова інформація, дисклеймер",
}
"""Labels before legal lines."""
WISHES: Final = "mandatory, mandatories, must include, must mention, must have"
"""English labels before lines or descriptions of what is to be said."""
CODES: Final = (
    "code|código|codice|kode|kod|kodu|kód|cod|mã|код|โค้ด|รหัส|优惠码|優惠碼|代码|代碼|コード|코드|कोड|كود|رمز"
)
"""Words for a code of letters and digits."""
CALLS: Final = "call|dial|phone|tel|telephone|ring|text|hotline|whatsapp"
"""English words before a phone number."""
CURRENCIES: Final = (
    r"USD|EUR|GBP|CHF|SEK|NOK|DKK|THB|PLN|CZK|RON|INR|IDR|VND|JPY|CNY|KRW|RUB|UAH|BRL|CAD|AUD|[Kk]r|Rs\.?|Rp"
)
"""Currencies before or after a figure."""
UNITS: Final = (
    r"percent|per cent|prozent|zł|kč|lei|dollars?|euros?|pounds?|cents?|francs?|fr\.|rupees?|tl|руб|грн"
    r"|baht|บาท|元|円|원"
)
"""Words for money and shares after a figure."""
MONTHS: Final[Mapping[str, str]] = {
    "english": " ".join(names.MONTHS),
    "thai": "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม",
    "indonesian": "januari februari maret april mei juni juli agustus september oktober november desember",
    "polish": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada"
    " grudnia",
    "spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "czech": "ledna února března dubna května června července srpna září října listopadu prosince",
    "romanian": "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie"
    " decembrie",
    "german": "januar februar märz april mai juni juli august september oktober november dezember",
    "french": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre"
    " dicembre",
    "dutch": "januari februari maart april mei juni juli augustus september oktober november december",
    "hindi": "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
    "arabic": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    "turkish": "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    "swedish": "januari februari mars april maj juni juli augusti september oktober november december",
    "russian": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "ukrainian": "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
}
"""Names of the months as in a date; Chinese, Japanese, Korean and Vietnamese count them."""
