"""Awkward strings whose ids tell whether two installations tokenise alike.

A tokenizer file keeps a hash of what they became when it was made. Libraries move their rules a little from
version to version; where the hash still comes out the same, another version is as good.
"""

from __future__ import annotations

_LITERAL = """\
Hello,\\n\\nworld  it's
a\\\\b C:\\\\temp\\\\new \\\\\\\\ \\\\+
x+y ++ z+++
http://a.b/c?d=e_f https://www.example.com/index.html#top
me@example.org, you.there@sub.example.co.uk.
I can't, won't, shan't've; you'd've; y'all'd; o'clock; 'tis 'twas 'em rock'n'roll
He said: "Mr. and Mrs. O'Neill (of St. John's, N.Y.) arrived at 10a.m. on Jan. 3rd, 1899."
cannot gonna gotta wanna lemme gimme dunno wed. im. id ill Cannot.
''Tis ' ''Tis '' ' "'" ''' ` `` ´
:) :-) ;) :( :-( :D =D <3 </3 ^_^ (-_-) (o: :-)) :))) 8-) ): (: : ) ; ) : (
$5.00 US$ 5 10% 50%-60% 1,000,000 3.14159 1/2 2x4 10km 5kg 20°C 6'2" #1 No.1
e.g. i.e. etc. vs. a.m. p.m. Ph.D. U.S.A. U.K. Inc. Ltd. Co. D.C.
well-known mother-in-law re-enter 1914-18 -- --- -word word- —dash— –en– ―bar― … ... .. . ....
~tilde~ *star* **two** _under_ __dunder__ [br] {br} <br> |pipe| a|b ?! !! !? ??? ;;
&amp; &lt;tag&gt; &eacute; &#39; &#x2019; AT&T R&D
x < y &amp; z
caf\\u00e9 na\\u00efve cafe\\u0301 \\u00c6sop \\u0152uvre \\ufb01nd \\u0132 \\u01c4
\\u00e2\\u20ac\\u2122 it\\u00e2\\u20ac\\u2122s \\u00c3\\u00a9t\\u00c3\\u00a9 \
\\u00e2\\u20ac\\u0153quoted\\u00e2\\u20ac\\u009d
\\u2018single\\u2019 \\u201cdouble\\u201d \\u201alow\\u201b \\u201elow\\u201f \\u00abguil\\u00bb \\u2039a\\u203a
\\u0130stanbul \\u0131 \\u00df \\u1e9e \\u03a3\\u03a3 \\u039f\\u0394\\u039f\\u03a3 \\u01c5
\\u4e2d\\u6587\\u5b57\\u7b26 \\u65e5\\u672c\\u8a9e\\u3067\\u3059\\u3002 \\ud55c\\uad6d\\uc5b4 \
\\uff21\\uff22\\uff23\\uff11\\u3000\\uff01
\\u0645\\u0631\\u062d\\u0628\\u0627 \\u05e9\\u05dc\\u05d5\\u05dd \\u202babc\\u202c \\u200fx\\u200e
\\U0001f600 \\U0001f469\\u200d\\U0001f4bb \\U0001f1e9\\U0001f1ea \\U0001f44d\\U0001f3fd \\u2764\\ufe0f
a\\u200bb a\\u200cb a\\u200db a\\u00adb \\ufeffbom a\\u2060b \\u00a0nbsp\\u00a0 thin\\u2009space \\u2003em
tab\\tseparated\\tvalues \\t\\t two
line\\r\\nline\\rline\\x0bline\\x0cline\\x85line\\u2028line\\u2029line
\\x00\\x01\\x02 bell\\x07 esc\\x1b[31mred\\x1b[0m del\\x7f \\x1c\\x1d\\x1e\\x1f c1\\x80\\x91\\x9f
\\n\\n leading and trailing \\n \\n
   \\n  a \\n \\n\\n b   c
\\u0e2a\\u0e27\\u0e31\\u0e2a\\u0e14\\u0e35 \\u0928\\u092e\\u0938\\u094d\\u0924\\u0947 \\u10d2\\u10d0 \\u13a3 \\u1200
\\u2460 \\u00bd \\u2167 \\u33a1 x\\u00b2 H\\u2082O \\u2103 \\u2122 \\u00a9 \\u00ae \\u00a7 \\u00b6
\\u20ac5 \\u00a35 \\u00a55 5\\u20ac \\u20b95 \\u20bf
"""

_WORDS = ("it's", "Mr.", "end.", "a.m.", "don't", "'em", "U.S.", "5km", "(so)", '"oh!"', "well-known")
_NEIGHBOURS = ("'", "''", ":", ")", "(", "d", ".", "=", "<3", "-", "\n", "\\", "$$$", "...", "—")


def probe_strings() -> list[str]:
    """Return about two hundred strings that show a change of rules, always the same."""
    literal = [line.encode("ascii", "backslashreplace").decode("unicode_escape") for line in _LITERAL.splitlines()]
    return literal + [f"{word} {sign}{word}" for word in _WORDS for sign in _NEIGHBOURS]
