import { describe, expect, it } from 'vitest'
import { titleOf } from './title.ts'

describe('the title of a file', () => {
  it.each([
    ['trip.md', null, 'trip'],
    ['tea-at-five.md', null, 'tea at five'],
    ['IMG_2034.jpg', null, 'IMG_2034'],
    ['Log 2026-11-27 of A-B.txt', null, 'Log 2026-11-27 of A-B'],
    ['notes/The plan.v2.txt', 'Summer', 'The plan.v2'],
    ['.profile', null, '.profile'],
    ['Makefile', null, 'Makefile'],
    ['Release 1.2', null, 'Release 1.2'],
    ['song.mp3', null, 'song'],
    ['St. Moritz', null, 'St. Moritz'],
    ['index.html', 'My site', 'My site'],
    ['docs/index.html', 'My site', 'docs'],
    ['README.md', null, 'README'],
    ['gnp\u202e.exe', null, 'gnp\ufffd'],
  ])('%j of the page %j is %j', (path, page, title) => {
    expect(titleOf(path, page)).toBe(title)
  })
})
