import { describe, expect, it } from 'vitest'
import { kindOf, pictureType } from './kind.ts'

const bytes = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
const utf8 = (text: string) => new TextEncoder().encode(text)
const nothing = new Uint8Array()

describe('the name of a file', () => {
  it('determines its kind', () => {
    expect(kindOf('notes.md', nothing)).toEqual({ kind: 'markdown' })
    expect(kindOf('INDEX.HTML', nothing)).toEqual({ kind: 'html' })
    expect(kindOf('a.b.rs', nothing)).toEqual({ kind: 'code', language: 'rust' })
    expect(kindOf('cat.jpeg', nothing)).toEqual({ kind: 'picture', mime: 'image/jpeg' })
    expect(kindOf('logo.svg', nothing)).toEqual({ kind: 'picture', mime: 'image/svg+xml' })
    expect(kindOf('song.mp3', nothing)).toEqual({ kind: 'audio', mime: 'audio/mpeg' })
    expect(kindOf('film.webm', nothing)).toEqual({ kind: 'video', mime: 'video/webm' })
    expect(kindOf('paper.pdf', nothing)).toEqual({ kind: 'pdf' })
  })

  it('is ignored when it promises text and the bytes are not text', () => {
    const transportStream = bytes('\x47\x40\x00\x10\x00\xff')
    expect(kindOf('film.ts', transportStream)).toEqual({ kind: 'other' })
    expect(kindOf('film.ts', utf8('const a = 1'))).toEqual({ kind: 'code', language: 'typescript' })
    expect(kindOf('readme.md', bytes('\x89PNG\r\n\x1a\n'))).toMatchObject({ kind: 'picture' })
  })

  it('is that of a text in any encoding', () => {
    const utf16 = bytes('\xff\xfeG\0r\0\xfc\0')
    for (const head of [utf16, bytes('Gr\xfc\xdfe'), bytes('\x93\xfa\x96\x7b')]) {
      expect(kindOf('a.txt', head)).toEqual({ kind: 'text' })
      expect(kindOf('a.md', head)).toEqual({ kind: 'markdown' })
      expect(kindOf('a.html', head)).toEqual({ kind: 'html' })
      expect(kindOf('a.css', head)).toEqual({ kind: 'code', language: 'css' })
    }
  })

  it('is not looked up among inherited properties', () => {
    expect(kindOf('a.constructor', utf8('x'))).toEqual({ kind: 'text' })
    expect(kindOf('a.toString', utf8('x'))).toEqual({ kind: 'text' })
  })
})

describe('the first bytes of a file', () => {
  const sniff = (head: Uint8Array) => kindOf(null, head)

  it('identify pictures', () => {
    expect(sniff(bytes('\x89PNG\r\n\x1a\n....'))).toEqual({ kind: 'picture', mime: 'image/png' })
    expect(sniff(bytes('\xff\xd8\xff\xe0'))).toEqual({ kind: 'picture', mime: 'image/jpeg' })
    expect(sniff(bytes('GIF89a'))).toEqual({ kind: 'picture', mime: 'image/gif' })
    expect(sniff(bytes('RIFF....WEBP'))).toEqual({ kind: 'picture', mime: 'image/webp' })
    expect(sniff(bytes('\0\0\0\x20ftypavif'))).toEqual({ kind: 'picture', mime: 'image/avif' })
    expect(sniff(bytes('\0\0\0\x20ftypavis'))).toEqual({ kind: 'picture', mime: 'image/avif' })
    expect(sniff(utf8('<?xml version="1.0"?>\n<svg xmlns="x">'))).toMatchObject({ kind: 'picture' })
  })

  it('identify audio and video', () => {
    expect(sniff(bytes('RIFF....WAVE'))).toEqual({ kind: 'audio', mime: 'audio/wav' })
    expect(sniff(bytes('ID3\x04'))).toEqual({ kind: 'audio', mime: 'audio/mpeg' })
    for (const frame of ['\xff\xfb\x90\x00', '\xff\xf3\x40\xc4']) expect(sniff(bytes(frame))).toEqual({ kind: 'audio', mime: 'audio/mpeg' })
    expect(sniff(bytes('\0\0\0\x20ftypM4A '))).toEqual({ kind: 'audio', mime: 'audio/mp4' })
    expect(sniff(bytes('\0\0\0\x20ftypisom'))).toEqual({ kind: 'video', mime: 'video/mp4' })
    expect(sniff(bytes('\x1a\x45\xdf\xa3'))).toEqual({ kind: 'video', mime: 'video/webm' })
  })

  it('tell pictures of phones and cameras from films, which have the same container', () => {
    for (const brand of ['heic', 'heix', 'hevc', 'heim', 'mif1', 'msf1', 'crx ']) {
      expect(kindOf('IMG_0001.HEIC', bytes(`\0\0\0\x18ftyp${brand}\0\0\0\0`))).toEqual({ kind: 'other' })
    }
    expect(kindOf('v.3gp', bytes('\0\0\0\x18ftyp3gp4'))).toEqual({ kind: 'video', mime: 'video/mp4' })
    expect(kindOf('book.m4b', bytes('\0\0\0\x18ftypM4B '))).toEqual({ kind: 'audio', mime: 'audio/mp4' })
  })

  it('identify HTML by its doctype or first element, after comments', () => {
    expect(sniff(utf8('<!DOCTYPE html><title>x'))).toEqual({ kind: 'html' })
    expect(sniff(utf8('\uFEFF <!-- hi -->\n<html lang="en">'))).toEqual({ kind: 'html' })
    for (const text of ['<p>just a fragment', '<htmlx>']) expect(sniff(utf8(text))).toEqual({ kind: 'text' })
  })

  it('identify text, even when the last character is incomplete', () => {
    expect(sniff(utf8('grüße\n'))).toEqual({ kind: 'text' })
    expect(sniff(utf8('ü').subarray(0, 1))).toEqual({ kind: 'text' })
    expect(sniff(nothing)).toEqual({ kind: 'text' })
  })

  it('identify text and HTML in UTF-16, and HTML that declares another encoding', () => {
    expect(sniff(bytes('\xff\xfeh\0i\0'))).toEqual({ kind: 'text' })
    expect(sniff(bytes('\xfe\xff\0<\0h\0t\0m\0l\0>'))).toEqual({ kind: 'html' })
    expect(sniff(bytes('<html><meta charset=latin1>\xfc'))).toEqual({ kind: 'html' })
  })

  it('identify nothing else, so other files can only be saved', () => {
    expect(sniff(bytes('PK\x03\x04'))).toEqual({ kind: 'other' })
    expect(sniff(bytes('\x7fELF\x02\x01'))).toEqual({ kind: 'other' })
    for (const head of ['caf\xe9 ', 'ab\0']) expect(sniff(bytes(head))).toEqual({ kind: 'other' })
    expect(sniff(bytes('%PDF-1.7'))).toEqual({ kind: 'pdf' })
  })
})

describe('a picture', () => {
  it('has a media type, and nothing else does', () => {
    expect(pictureType('a.png', nothing)).toBe('image/png')
    expect(pictureType('nameless', bytes('GIF89a'))).toBe('image/gif')
    expect(pictureType('a.html', utf8('<svg>'))).toBeNull()
  })
})
