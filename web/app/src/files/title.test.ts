import { describe, expect, it } from 'vitest'
import { namesFolder, titleOf } from './title.ts'

describe('the title of a file', () => {
  it.each([
    ['tea-at-five.md', 'Summer', 'tea-at-five.md', null],
    ['notes/2026/The plan.v2.txt', 'Summer', 'The plan.v2.txt', 'notes/2026'],
    ['.profile', null, '.profile', null],
    ['Makefile', null, 'Makefile', null],
    ['index.html', 'My site', 'My site', 'index.html'],
    ['docs/index.html', 'My site', 'docs', 'docs/index.html'],
    ['README.md', null, 'README.md', null],
    ['gnp\u202e.exe', null, 'gnp\ufffd.exe', null],
  ])('%j of the page %j is %j, in %j', (path, page, title, place) => {
    expect(titleOf(path, page)).toEqual({ title, place })
  })

  it('is that of its folder when its name says nothing', () => {
    expect(['a/Index.htm', 'README', 'read-first.txt', 'indexes.md', 'reader.txt'].filter(namesFolder)).toEqual([
      'a/Index.htm',
      'README',
      'read-first.txt',
    ])
  })
})
