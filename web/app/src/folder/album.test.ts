import { describe, expect, it } from 'vitest'
import { isAlbum, isPicture, swipeStep } from './album.ts'

describe('a folder is an album', () => {
  it('from two pictures on', () => {
    expect(isAlbum(1, 1)).toBe(false)
    expect(isAlbum(2, 2)).toBe(true)
  })

  it('when three of four files are pictures', () => {
    expect(isAlbum(9, 12)).toBe(true)
    expect(isAlbum(8, 12)).toBe(false)
  })

  it('by the names of the files', () => {
    expect(['a/b.JPG', 'c.svg', 'd.mp4', 'e.txt', 'png'].filter((path) => isPicture({ path }))).toEqual(['a/b.JPG', 'c.svg'])
  })
})

describe('a swipe', () => {
  it('to the left turns to the next picture, where people read from left to right', () => {
    expect([swipeStep(-90, 10, true), swipeStep(90, -10, true)]).toEqual([1, -1])
    expect([swipeStep(-90, 10, false), swipeStep(90, -10, false)]).toEqual([-1, 1])
  })

  it('is neither short nor slanted', () => {
    expect([swipeStep(-39, 0, true), swipeStep(-90, 46, true), swipeStep(0, 90, true)]).toEqual([0, 0, 0])
  })
})
