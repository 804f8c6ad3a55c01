import { describe, expect, it } from 'vitest'
import type { Draft } from './draft.ts'
import { bundle, draftBytes, freeName, isEmpty, nameOfText, pictureMarkup, tidyPath, withFiles } from './draft.ts'

const file = (path: string, text = 'x') => ({ path, blob: new Blob([text]) })
const draft = (part: Partial<Draft>): Draft => ({ writing: 'markdown', text: '', files: [], ...part })
const paths = (part: Partial<Draft>) => bundle(draft(part)).files.map(({ path }) => path)

describe('a draft', () => {
  it('is empty until there is text or a file', () => {
    expect(isEmpty(draft({ text: ' \n' }))).toBe(true)
    expect(isEmpty(draft({ text: 'a' }))).toBe(false)
    expect(isEmpty(draft({ files: [file('a')] }))).toBe(false)
  })

  it('has a size in bytes, not in characters', () => {
    expect(draftBytes(draft({ text: 'ü', files: [file('a', '123')] }))).toBe(5)
  })
})

describe('creating a page', () => {
  it('from text makes a file named by its first words', () => {
    expect(bundle(draft({ text: '# Tea at five!\n\nBring cups.' }))).toMatchObject({
      filename: 'tea-at-five.md',
    })
    expect(bundle(draft({ text: 'hi', writing: 'text' })).filename).toBe('hi.txt')
  })

  it('from one file keeps its name', () => {
    expect(bundle(draft({ files: [file('film.mp4')] })).filename).toBe('film.mp4')
  })

  it('from text with pictures makes a directory with an index', () => {
    expect(paths({ text: 'hi', files: [file('cat.png')] })).toEqual(['index.md', 'cat.png'])
    expect(paths({ text: '<p>', writing: 'html', files: [file('a.png')] })[0]).toBe('index.html')
    expect(bundle(draft({ text: 'Hi!', files: [file('cat.png')] })).filename).toBe('hi')
  })

  it('from several files makes a directory', () => {
    expect(paths({ files: [file('a'), file('b')] })).toEqual(['a', 'b'])
    expect(bundle(draft({ files: [file('a'), file('b')] })).filename).toBeNull()
    expect(bundle(draft({ files: [file('trip/a'), file('b')] })).filename).toBeNull()
  })

  it('from a folder keeps the folder\'s name', () => {
    expect(bundle(draft({ files: [file('trip/a.txt')] })).filename).toBe('trip')
    expect(bundle(draft({ files: [file('trip/a'), file('trip/b/c')] })).filename).toBe('trip')
  })

  it('does not replace an index that was dropped', () => {
    expect(paths({ text: 'hi', files: [file('index.md')] })).toEqual(['index-2.md', 'index.md'])
  })
})

describe('a file name', () => {
  it('comes from the first line with a word', () => {
    expect(nameOfText('\n\n## Über *uns*\n', 'markdown')).toBe('über-uns')
    expect(nameOfText('![cat](cat.png) [My](x) day', 'markdown')).toBe('my-day')
    expect(nameOfText('***', 'markdown')).toBe('page')
  })

  it('of HTML is its title', () => {
    expect(nameOfText('<!doctype html><title>A B</title>', 'html')).toBe('a-b')
    expect(nameOfText('<p>x', 'html')).toBe('page')
  })

  it('is short', () => {
    expect(nameOfText('word '.repeat(100), 'text').length).toBeLessThanOrEqual(48)
  })

  it('that is taken gets a number', () => {
    const files = [file('cat.png'), file('cat-2.png'), file('.env')]
    expect(freeName('cat.png', files)).toBe('cat-3.png')
    expect(freeName('dog.png', files)).toBe('dog.png')
    expect(freeName('.env', files)).toBe('.env-2')
  })

  it('cannot leave its page', () => {
    expect(tidyPath('../../a//./b')).toBe('a/b')
    expect(tidyPath('..')).toBe('file')
  })

  it('is changed for files with equal names', () => {
    const added = withFiles(draft({ files: [file('a.txt')] }), [file('a.txt'), file('a.txt')])
    expect(added.files.map(({ path }) => path)).toEqual(['a.txt', 'a-2.txt', 'a-3.txt'])
  })
})

describe('the markup of a picture', () => {
  it('works with any name', () => {
    expect(pictureMarkup('my cat (1).png')).toBe('![my cat (1)](my%20cat%20%281%29.png)')
    expect(pictureMarkup('trip/a]b.png')).toBe('![a b](trip/a%5Db.png)')
  })
})
