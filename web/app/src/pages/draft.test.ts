import { describe, expect, it } from 'vitest'
import type { Draft } from './draft.ts'
import { draftBytes, EMPTY_DRAFT, isEmpty } from './draft.ts'
import { freeName, groupsOf, pictureMarkup, tidyPath, withEarlier, withFiles, without } from './draft-files.ts'
import { isPastedText } from '../ui/pasted-text.ts'

const file = (path: string, text = 'x') => ({ path, blob: new Blob([text]) })
const draft = (part: Partial<Draft>): Draft => ({ ...EMPTY_DRAFT, ...part })

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

describe('a file name', () => {
  it('that is taken gets a number', () => {
    const files = [file('cat.png'), file('cat-2.png'), file('.env')]
    expect(freeName('cat.png', files)).toBe('cat-3.png')
    expect(freeName('dog.png', files)).toBe('dog.png')
    expect(freeName('.env', files)).toBe('.env-2')
  })

  it('that is taken stays in its folder, and a hidden file stays hidden', () => {
    expect(freeName('v1.0/readme', [file('v1.0/readme')])).toBe('v1.0/readme-2')
    expect(freeName('a/.gitignore', [file('a/.gitignore')])).toBe('a/.gitignore-2')
    expect(freeName('v1.0/a.tar.gz', [file('v1.0/a.tar.gz')])).toBe('v1.0/a.tar-2.gz')
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

describe('the files of a draft after a reload', () => {
  it('come first, and a file that was added meanwhile gets another name', () => {
    const now = draft({ text: 'a', files: [file('cat.png', 'new')], emptyFolders: ['later'] })
    const restored = withEarlier(now, { files: [file('cat.png', 'old'), file('dog.png')], emptyFolders: ['before'] })
    expect(restored.files.map(({ path }) => path)).toEqual(['cat.png', 'dog.png', 'cat-2.png'])
    expect(restored.emptyFolders).toEqual(['before', 'later'])
    expect(restored.text).toBe('a')
  })
})

describe('empty folders of a draft', () => {
  it('are kept as long as a file is there', () => {
    const one = withFiles(draft({}), [file('trip/a')], ['trip/later', '../trip/never/'])
    expect(one.emptyFolders).toEqual(['trip/later', 'trip/never'])
    const [only] = one.files
    expect(only && without(one, [only])).toEqual(EMPTY_DRAFT)
  })

  it('go with the last file of their folder', () => {
    const two = withFiles(draft({}), [file('trip/a'), file('home/a')], ['trip/later', 'home/later', 'bare'])
    expect(without(two, two.files.slice(0, 1))).toMatchObject({ files: [{ path: 'home/a' }], emptyFolders: ['home/later', 'bare'] })
  })
})

describe('files of a draft', () => {
  const shown = (paths: string[]) => groupsOf(paths.map((path) => file(path))).map(({ folder, files }) => [folder, files.length])
  const many = (count: number, folder = '') => Array.from({ length: count }, (_, i) => `${folder}${i}.txt`)

  it('are shown each, or as one when they are many', () => {
    expect(shown(many(6))).toEqual(Array(6).fill([null, 1]))
    expect(shown(many(7))).toEqual([[null, 7]])
  })

  it('are one with the others of their folder', () => {
    expect(shown([...many(60, 'mixed/day/'), 'a.txt'])).toEqual([
      ['mixed', 60],
      [null, 1],
    ])
    expect(shown([...many(2, 'mixed/'), ...many(6)])).toEqual([
      ['mixed', 2],
      [null, 6],
    ])
    expect(shown(many(9).map((name) => `${name}/a.txt`))).toEqual([[null, 9]])
  })
})

describe('a clipboard with a file', () => {
  const picture = [file('image.png')]

  it('of a spreadsheet is text: its picture shows the same cells', () => {
    expect(isPastedText('a\t1\r\nb\t2\r\n', picture)).toBe(true)
    expect(isPastedText('one cell', picture)).toBe(true)
  })

  it('is a file when there is no text, or only the names or paths of the files', () => {
    expect(isPastedText('', picture)).toBe(false)
    expect(isPastedText(' \n', picture)).toBe(false)
    expect(isPastedText('my cat.png', [file('my cat.png')])).toBe(false)
    expect(isPastedText('/home/ada/a.txt\n/home/ada/b.txt', [file('a.txt'), file('b.txt')])).toBe(false)
    expect(isPastedText('file:///home/ada/my%20cat.png\r\n', [file('my cat.png')])).toBe(false)
    expect(isPastedText('C:\\pictures\\cat.png', [file('cat.png')])).toBe(false)
    expect(isPastedText('file:///%', [file('%')])).toBe(false)
  })

  it('is a file when the text writes its accents in another form', () => {
    expect(isPastedText('/home/cafe\u0301.png', [file('caf\u00e9.png')])).toBe(false)
  })

  it('is text when the text says more than the names', () => {
    expect(isPastedText('Look at a.txt', [file('a.txt')])).toBe(true)
    expect(isPastedText('a.txt\nand more', [file('a.txt')])).toBe(true)
  })
})

describe('the markup of a picture', () => {
  it('works with any name', () => {
    expect(pictureMarkup('my cat (1).png')).toBe('![my cat (1)](my%20cat%20%281%29.png)')
    expect(pictureMarkup('trip/a]b.png')).toBe('![a b](trip/a%5Db.png)')
  })
})
