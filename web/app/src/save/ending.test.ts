import { expect, it } from 'vitest'
import { savedName } from './ending.ts'

const PNG = '\x89PNG\r\n\x1a\n'
const saved = (name: string, bytes: string, isNameless = false) => {
  const content = Uint8Array.from(bytes, (letter) => letter.charCodeAt(0))
  const file = { name, isNameless, size: content.length, blob: () => Promise.resolve(new Blob([content])) }
  return savedName(file, new AbortController().signal)
}

it('a file without an ending is saved with that of its kind', async () => {
  expect(await saved('page', PNG, true)).toBe('page.png')
  expect(await saved('hills', '\xff\xd8\xff')).toBe('hills.jpg')
  expect(await saved('page', '%PDF-1.7', true)).toBe('page.pdf')
  expect(await saved('page', 'Fog', true)).toBe('page.txt')
  expect(await saved('page', '<!doctype html>', true)).toBe('page.html')
})

it('a name with an ending stays, and that of a text', async () => {
  expect(await saved('hills.jpeg', PNG)).toBe('hills.jpeg')
  expect(await saved('Makefile', 'all:')).toBe('Makefile')
  expect(await saved('.env', 'A=1')).toBe('.env')
  expect(await saved('page', '\0\x01', true)).toBe('page')
})
