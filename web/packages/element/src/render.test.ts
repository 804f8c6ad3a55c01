// @vitest-environment happy-dom
import { expect, it } from 'vitest'
import { render } from './render.ts'

const bytesOf = (letters: string) => Uint8Array.from(letters, (letter) => letter.charCodeAt(0))

/** A page of one file. */
const shown = async (path: string, letters: string) => {
  const files = [{ path, size: letters.length, complete: true }]
  const blob = new Blob([bytesOf(letters)])
  const page = { listing: () => ({ files, links: 0, hasNames: true, isFinal: true }), file: () => Promise.resolve(blob) }
  return (await render(page, 'https://example.org/p/cid')).node
}

it.each([
  ['a.txt', 'Gr\xfc\xdfe', 'Grüße'],
  ['', '\xff\xfeh\0i\0', 'hi'],
  ['', '\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe', 'Grüße'],
  ['a.xml', '<?xml version="1.0" encoding="Shift_JIS"?>\x93\xfa', '<?xml version="1.0" encoding="Shift_JIS"?>日'],
  ['a.md', '# x', '# x'],
])('shows a text in its encoding: %j %j', async (path, letters, text) => {
  const node = await shown(path, letters)
  expect([node.localName, node.textContent]).toEqual(['pre', text])
})

it('shows a file as the app does', async () => {
  const media = async (path: string, letters: string) => (await shown(path, letters)).localName
  expect(await media('', '\xff\xf3\x40\xc4')).toBe('audio')
  expect(await media('clip.webm', '\x1a\x45\xdf\xa3')).toBe('video')
  expect(await media('', 'GIF89a')).toBe('img')
  expect(await media('', '<!-- c --><!doctype html><p>x')).toBe('iframe')
  expect(await media('', '<html><meta charset=shift_jis>\x93\xfa')).toBe('iframe')
  const saved = (await shown('paper.pdf', '%PDF-1.7\n')) as HTMLAnchorElement
  expect([saved.localName, saved.download]).toEqual(['a', 'paper.pdf'])
})

it('shows SVG from an address that no tab can open, because its scripts would run on the origin of the site', async () => {
  const picture = (await shown('', '<!-- c --><svg xmlns="http://www.w3.org/2000/svg"/>')) as HTMLImageElement
  expect(picture.src).toMatch(/^data:image\/svg\+xml;base64,/)
})

it('says that a file is empty, and shows hidden characters of names', async () => {
  expect((await shown('a.txt', '')).textContent).toBe('This file is empty.')
  const saved = (await shown('invoice\u202efdp.bin', 'PK\x03\x04')) as HTMLAnchorElement
  expect(saved.download).toBe('invoicefdp.bin')
  expect(saved.textContent).toContain('"invoice\ufffdfdp.bin"')
})

it('says where the rest of a long text is', async () => {
  const node = await shown('', 'x'.repeat((1 << 20) + 1))
  expect(node.querySelector('a')?.href).toBe('https://example.org/p/cid')
})
