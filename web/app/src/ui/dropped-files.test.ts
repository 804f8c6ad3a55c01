import { nextTask } from '@watchfire/pages/content'
import { describe, expect, it } from 'vitest'
import { DROPPED_FILES_MAX, READ_PER_TASK, readDrop, readPicked } from './dropped-files.ts'

interface Tree {
  readonly [name: string]: Tree | string
}

/** A dropped file or folder, as browsers offer it: a hundred children at a time. */
function entryOf(name: string, child: Tree | string, above = ''): FileSystemEntry {
  const fullPath = `${above}/${name}`
  if (typeof child === 'string') {
    const file = (take: (file: File) => void) => take(new File([child], name))
    return { isFile: true, isDirectory: false, name, fullPath, file } as unknown as FileSystemEntry
  }
  const children = Object.entries(child).map(([below, each]) => entryOf(below, each, fullPath))
  const createReader = () => ({ readEntries: (take: (some: FileSystemEntry[]) => void) => take(children.splice(0, 100)) })
  return { isFile: false, isDirectory: true, name, fullPath, createReader } as unknown as FileSystemEntry
}

/** A dropped folder of these files. */
function folderOf(entries: FileSystemEntry[]): FileSystemEntry {
  const left = [...entries]
  const createReader = () => ({ readEntries: (take: (some: FileSystemEntry[]) => void) => take(left.splice(0, 100)) })
  return { ...entryOf('many', {}), createReader } as unknown as FileSystemEntry
}

const flat = (count: number): Tree => Object.fromEntries(Array.from({ length: count }, (_, i) => [`${i}.txt`, '']))

describe('a drop', () => {
  it('has the files of all folders, with their paths', async () => {
    const trip = entryOf('trip', { 'a.txt': 'a', days: { 'b.txt': 'b' } })
    const { files, emptyFolders, notice } = await readDrop([trip, entryOf('c.txt', 'c')])
    expect(files.map(({ path }) => path).sort()).toEqual(['c.txt', 'trip/a.txt', 'trip/days/b.txt'])
    expect([emptyFolders, notice]).toEqual([[], null])
  })

  it('has all files of one flat folder, however many there are in a batch', async () => {
    for (const count of [100, 2001, 4050]) {
      const { files, notice } = await readDrop([entryOf('many', flat(count))])
      expect([files.length, notice]).toEqual([count, null])
    }
  })

  it.each([
    ['in a folder', (each: FileSystemEntry[]) => [folderOf(each)]],
    ['without a folder', (each: FileSystemEntry[]) => each],
  ])('of many files %s asks the browser for a few of them in a task', async (_, arrange) => {
    let asked = 0
    let most = 0
    const entries = Array.from({ length: 1050 }, (_, i) => {
      // The answer is there in the task of the question.
      const file = (take: (file: File) => void) => {
        most = Math.max(most, ++asked)
        void Promise.resolve().then(() => take(new File([], `${i}`)))
      }
      return { ...entryOf(`${i}`, ''), file } as unknown as FileSystemEntry
    })
    let isOver = false
    const reading = readDrop(arrange(entries)).finally(() => (isOver = true))
    while (!isOver) {
      asked = 0
      await nextTask()
    }
    expect((await reading).files).toHaveLength(1050)
    expect(most).toBe(READ_PER_TASK)
  })

  it('of more files than the limit says so, and how to share them, whether in one folder or in several', async () => {
    const sentence = 'Only the first 150 files were added. Share a larger folder in a terminal, with “watchfire share”.'
    for (const tree of [flat(151), { a: flat(100), b: flat(51) }]) {
      const { files, notice } = await readDrop([entryOf('many', tree)], 150)
      expect([files.length, notice]).toEqual([150, sentence])
    }
    expect((await readDrop([entryOf('many', flat(150))], 150)).notice).toBeNull()
    expect(DROPPED_FILES_MAX).toBe(20_000)
  })

  it('keeps folders without anything in them', async () => {
    const { emptyFolders } = await readDrop([entryOf('trip', { 'a.txt': 'a', later: {}, days: { never: {} } })])
    expect(emptyFolders).toEqual(['trip/later', 'trip/days/never'])
  })

  it('without any file says so', async () => {
    const { files, emptyFolders, notice } = await readDrop([entryOf('trip', { later: {} })])
    expect([files, emptyFolders]).toEqual([[], []])
    expect(notice).toBe('The folder has no files. Browsers leave out symbolic links.')
  })

  it('that cannot be read adds nothing, and says so', async () => {
    const gone = { ...entryOf('a.txt', ''), file: (_: unknown, reject: (error: Error) => void) => reject(new Error('gone')) }
    const { files, notice } = await readDrop([entryOf('b.txt', ''), gone as unknown as FileSystemEntry])
    expect(files).toEqual([])
    expect(notice).toBe('The browser could not read the dropped files. Try “Add files”.')
  })
})

describe('a picked folder', () => {
  const picked = ['trip/a.txt', 'trip/b.txt'].map((path) => ({ path, blob: new Blob() }))

  it('has all of its files, or the first ones and a notice', () => {
    expect(readPicked(picked)).toEqual({ files: picked, emptyFolders: [], notice: null })
    expect(readPicked(picked, 1)).toMatchObject({ files: picked.slice(0, 1), notice: expect.stringContaining('Only the first 1 files') })
  })

  it('without files says so', () => {
    expect(readPicked([]).notice).toContain('has no files')
  })
})
