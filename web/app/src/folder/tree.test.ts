import { inOneTask, ITEMS_PER_TASK } from '@watchfire/pages/content'
import { describe, expect, it } from 'vitest'
import type { DirectoryFile } from '../ui/site.ts'
import { arranged, matchingRows, orderings, rowsOf, treeOf, type Folder, type Order, type Row } from './tree.ts'

function file(path: string, size = 1, modified?: number): DirectoryFile {
  return { path, size, blob: () => Promise.resolve(new Blob()), ...(modified === undefined ? {} : { modified }) }
}

const trip = [file('a10.txt', 5, 20), file('a9.txt', 7), file('days/two/cat.png', 30, 10), file('days/one.md', 2), file('b.md', 1, 30)]
const tree = (files: readonly DirectoryFile[]): Folder => inOneTask(treeOf(files))
const textOf = (row: Row) => `${'  '.repeat(row.depth)}${row.kind === 'folder' ? `${row.folder.name}/` : row.name}`

describe('a folder', () => {
  it('lists its folders first, and names in the order in which people read them', () => {
    const rows = inOneTask(rowsOf(tree(trip), 'name', () => true))
    expect(rows.map(textOf)).toEqual(['days/', '  two/', '    cat.png', '  one.md', 'a9.txt', 'a10.txt', 'b.md'])
    expect(inOneTask(rowsOf(tree(trip), 'name', () => false)).map(textOf)).toEqual(['days/', 'a9.txt', 'a10.txt', 'b.md'])
  })

  it('knows what is below it', () => {
    const { count, bytes, folders } = tree(trip)
    expect([count, bytes]).toEqual([5, 45])
    expect(folders.map(({ path, count, bytes }) => [path, count, bytes])).toEqual([['days', 2, 32]])
    expect(tree([])).toMatchObject({ count: 0, bytes: 0 })
  })

  it('is sorted by size, date and type', () => {
    const paths = (order: Order) => [...trip].sort(orderings(order).files).map(({ path }) => path)
    expect(paths('size').slice(0, 3)).toEqual(['days/two/cat.png', 'a9.txt', 'a10.txt'])
    expect(paths('date')).toEqual(['b.md', 'a10.txt', 'days/two/cat.png', 'a9.txt', 'days/one.md'])
    expect(paths('kind')).toEqual(['b.md', 'days/one.md', 'days/two/cat.png', 'a9.txt', 'a10.txt'])
  })

  it('is filtered by any part of a path', () => {
    expect(inOneTask(matchingRows(trip, 'DAYS/', 'name')).map(textOf)).toEqual(['days/one.md', 'days/two/cat.png'])
    expect(inOneTask(matchingRows(trip, 'nothing', 'name'))).toEqual([])
    const accents = [file('Caf\u00e9.txt'), file('cafe\u0301.png')]
    for (const words of ['f\u00e9', 'FE\u0301']) expect(inOneTask(matchingRows(accents, words, 'name'))).toHaveLength(2)
  })

  it.each([
    ['many files in many folders', 60_000, (i: number) => `${i % 300}/${i % 7}/${i}.txt`, 60_000 + 300 + 300 * 7],
    ['many files in one folder', 10_000, (i: number) => `file ${(i * 7919) % 10_000}.txt`, 10_000],
  ])('of %s is arranged in tasks for a few of them', (_, count, pathAt, lines) => {
    const many = Array.from({ length: count }, (_, i) => file(pathAt(i)))
    const options = { order: 'name', words: '', isGallery: null, isOpen: () => true } as const
    let read = 0
    for (const each of many) {
      const { path } = each
      const get = () => {
        read++
        return path
      }
      Object.defineProperty(each, 'path', { get })
    }
    const work = arranged(many, options)
    for (;;) {
      const before = read
      const step = work.next()
      // A sort compares each name with about nine others of its run.
      expect(read - before).toBeLessThanOrEqual(2 * ITEMS_PER_TASK * Math.ceil(Math.log2(ITEMS_PER_TASK)))
      if (!step.done) continue
      expect(step.value.rows).toHaveLength(lines)
      return
    }
  })
})
