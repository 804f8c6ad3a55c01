import { describe, expect, it } from 'vitest'
import { findReferencedFile, indexOf } from './directory.ts'

const files = (...paths: string[]) => paths.map((path) => ({ path, size: 1, blob: () => Promise.resolve(new Blob()) }))

describe('a directory', () => {
  it('opens with its index, else its readme, else its list', () => {
    expect(indexOf(files('a.png', 'README.md', 'index.html'))?.path).toBe('index.html')
    expect(indexOf(files('index.html', 'index.md'))?.path).toBe('index.md')
    expect(indexOf(files('a.png', 'README.md'))?.path).toBe('README.md')
    expect(indexOf(files('a.png', 'sub/index.md'))).toBeNull()
  })

  it('finds the file that a reference names', () => {
    const some = files('index.md', 'trip/cat.png')
    expect(findReferencedFile(some, 'trip/cat.png', 'index.md')?.path).toBe('trip/cat.png')
    expect(findReferencedFile(some, 'https://x/trip/cat.png', 'index.md')).toBeNull()
    expect(findReferencedFile(some, 'dog.png', 'index.md')).toBeNull()
  })
})
