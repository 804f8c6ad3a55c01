import { describe, expect, it } from 'vitest'
import { declaringOf, encodingOf, isBinary, textIn } from './encoding.ts'

const latin = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
const utf8 = (text: string) => new TextEncoder().encode(text)
const utf16 = (text: string, isBig: boolean) =>
  Uint8Array.from(
    [...`\ufeff${text}`].flatMap((letter) => {
      const code = letter.charCodeAt(0)
      return isBig ? [code >> 8, code & 255] : [code & 255, code >> 8]
    }),
  )
/** "日本" in Shift_JIS. */
const JAPANESE = '\x93\xfa\x96\x7b'

describe('the encoding of a text', () => {
  it('is that of its byte order mark, whatever it declares', async () => {
    for (const isBig of [false, true]) {
      const bytes = utf16('<meta charset=windows-1252>Grüße, Ω', isBig)
      expect(encodingOf(bytes, 'html')).toEqual({ label: isBig ? 'utf-16be' : 'utf-16le', by: 'mark' })
      expect(await textIn(new Blob([bytes]))).toBe('<meta charset=windows-1252>Grüße, Ω')
      expect(isBinary(bytes)).toBe(false)
    }
    expect(await textIn(new Blob([utf8('\ufeff<meta charset=windows-1252>ü')]), 'html')).toBe('<meta charset=windows-1252>ü')
  })

  it.each([
    ['html', '<!doctype html><meta charset="windows-1252">', 'windows-1252'],
    ['html', '<META CHARSET=Shift_JIS>', 'shift_jis'],
    ['html', "<meta name=x content='a'><meta  charset = 'euc-kr' >", 'euc-kr'],
    ['html', '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">', 'iso-8859-2'],
    ['html', '<meta content="text/html;charset=koi8-r" http-equiv=content-type>', 'koi8-r'],
    ['html', '<?xml version="1.0" encoding="iso-8859-15"?><html>', 'iso-8859-15'],
    ['html', '<meta name="description" content="why charset=koi8-r is old"><meta charset="big5">', 'big5'],
    ['html', '<meta/charset=koi8-r>', 'koi8-r'],
    ['html', '<meta charset="utf-16">', 'utf-8'],
    ['html', '<meta charset="x-user-defined">', 'windows-1252'],
    ['css', '@charset "gb18030";', 'gb18030'],
    ['xml', '<?xml version="1.0" encoding=\'windows-1251\'?>', 'windows-1251'],
  ] as const)('is declared in %s: %s', (declaring, start, label) => {
    expect(encodingOf(latin(`${start}\xfc`), declaring)).toEqual({ label, by: 'declaration' })
  })

  it.each([
    ['html', '<!-- <meta charset="koi8-r"> -->'],
    ['html', '<meta charset="no-such-thing">'],
    ['html', '<meta name="charsets" content="koi8-r">'],
    ['html', `${' '.repeat(4000)}<meta charset="koi8-r">`],
    ['css', 'a {} @charset "koi8-r";'],
    [null, '<meta charset="koi8-r">'],
  ] as const)('is not declared in %s: %s', (declaring, start) => {
    expect(encodingOf(latin(start), declaring)).toEqual({ label: 'utf-8', by: 'content' })
    expect(encodingOf(latin(`${start}\xfc.`), declaring)).toEqual({ label: 'windows-1252', by: 'guess' })
  })

  it('decides what is read', async () => {
    expect(await textIn(new Blob([latin(`<meta charset=shift_jis>${JAPANESE}`)]), 'html')).toBe('<meta charset=shift_jis>日本')
    expect(await textIn(new Blob([latin('Gr\xfc\xdfe')]))).toBe('Grüße')
    expect(await textIn(new Blob(['Grüße']))).toBe('Grüße')
    // The last character is incomplete.
    expect(await textIn(new Blob([utf8('ü').subarray(0, 1)]))).toBe('\ufffd')
  })

  it('is looked for where a file of its name declares it', () => {
    expect(['a.html', 'A.HTM', 'a.xhtml', 'a.css', 'a.svg', 'a.xml', 'a.txt', 'html'].map(declaringOf)).toEqual([
      'html',
      'html',
      'html',
      'css',
      'xml',
      'xml',
      null,
      null,
    ])
  })
})

describe('bytes with control characters', () => {
  it('are not text, even behind a byte order mark', () => {
    expect([latin('a\0b'), latin('\xff\xfe\0\0'), latin('\xff\xfe\x01\0')].map(isBinary)).toEqual([true, true, true])
    expect([latin('a\tb\r\n\x1b[0m'), latin('caf\xe9'), new Uint8Array()].map(isBinary)).toEqual([false, false, false])
  })
})
