import { describe, expect, it } from 'vitest'
import { kindOf } from './kind.ts'

const bytesOf = (letters: string) => Uint8Array.from(letters, (letter) => letter.charCodeAt(0))
/** The start of an ISO media file of this brand. */
const isoFile = (brand: string) => bytesOf(`\0\0\0\x18ftyp${brand}\0\0\0\0`)

describe('the kind of a file', () => {
  it.each([
    ['\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'picture', 'image/png'],
    ['RIFF\x24\0\0\0WEBPVP8 ', 'picture', 'image/webp'],
    ['RIFF\x24\0\0\0WAVEfmt ', 'sound', 'audio/wav'],
    ['\xef\xbb\xbf\n <!DOCTYPE HTML><p>Hello', 'html', 'text/html'],
    ['<htmlx>', 'text', 'text/plain'],
    ['', 'text', 'text/plain'],
    ['ab\0', 'other', 'application/octet-stream'],
  ])('is told from its first bytes: %j', (start, kind, type) => {
    expect(kindOf(bytesOf(start))).toEqual({ kind, type })
  })

  it('follows the brand of an ISO media file', () => {
    for (const brand of ['avif', 'avis']) expect(kindOf(isoFile(brand)), brand).toEqual({ kind: 'picture', type: 'image/avif' })
    expect(kindOf(isoFile('M4A '))).toEqual({ kind: 'sound', type: 'audio/mp4' })
    for (const brand of ['isom', 'mp42', 'avc1']) expect(kindOf(isoFile(brand)), brand).toEqual({ kind: 'video', type: 'video/mp4' })
  })

  it('is not video for the pictures of phones and cameras, which browsers do not show', () => {
    for (const brand of ['heic', 'heix', 'hevc', 'heim', 'mif1', 'msf1', 'crx ']) {
      expect(kindOf(isoFile(brand)).kind, brand).toBe('other')
    }
  })
})
