import { describe, expect, it } from 'vitest'
import type { DirectoryFile } from '../ui/site.ts'
import { matchingRows, rowsOf, sortedFiles, treeOf, type Row } from './tree.ts'

function file(path: string, size = 1, modified?: number): DirectoryFile {
  return { path, size, blob: () => Promise.resolve(new Blob()), ...(modified === undefined ? {} : { modified }) }
}

const trip = [file('a10.txt', 5, 20), file('a9.txt', 7), file('days/two/cat.png', 30, 10), file('days/one.md', 2), file('b.md', 1, 30)]
const textOf = (row: Row) => `${'  '.repeat(row.depth)}${row.kind === 'folder' ? `${row.folder.name}/` : row.name}`

describe('a folder', () => {
  it('lists its folders first, and names in the order in which people read them', () => {
    const rows = rowsOf(treeOf(trip), 'name', () => true)
    expect(rows.map(textOf)).toEqual(['days/', '  two/', '    cat.png', '  one.md', 'a9.txt', 'a10.txt', 'b.md'])
    expect(rowsOf(treeOf(trip), 'name', () => false).map(textOf)).toEqual(['days/', 'a9.txt', 'a10.txt', 'b.md'])
  })

  it('knows what is below it', () => {
    const { count, bytes, folders } = treeOf(trip)
    expect([count, bytes]).toEqual([5, 45])
    expect(folders.map(({ path, count, bytes }) => [path, count, bytes])).toEqual([['days', 2, 32]])
    expect(treeOf([])).toMatchObject({ count: 0, bytes: 0 })
  })

  it('is sorted by size, date and type', () => {
    const paths = (order: Parameters<typeof sortedFiles>[1]) => sortedFiles(trip, order).map(({ path }) => path)
    expect(paths('size').slice(0, 3)).toEqual(['days/two/cat.png', 'a9.txt', 'a10.txt'])
    expect(paths('date')).toEqual(['b.md', 'a10.txt', 'days/two/cat.png', 'a9.txt', 'days/one.md'])
    expect(paths('kind')).toEqual(['b.md', 'days/one.md', 'days/two/cat.png', 'a9.txt', 'a10.txt'])
  })

  it('is filtered by any part of a path', () => {
    expect(matchingRows(trip, 'DAYS/', 'name').map(textOf)).toEqual(['days/one.md', 'days/two/cat.png'])
    expect(matchingRows(trip, 'nothing', 'name')).toEqual([])
  })

  it('of many files in many folders is arranged without a pause', () => {
    const many = Array.from({ length: 60_000 }, (_, i) => file(`${i % 300}/${i % 7}/${i}.txt`))
    const rows = rowsOf(treeOf(many), 'name', () => true)
    expect(rows).toHaveLength(60_000 + 300 + 300 * 7)
  })
})
