import { describe, expect, it } from 'vitest'
import { cidOf, RAW } from './cid.ts'
import { GROUP_FILES_MAX, SmallFiles } from './small-files.ts'
import { nextTask } from './tasks.ts'

const KIB = 1 << 10

/** A file that counts how often it is read alone. */
class CountedFile extends Blob {
  reads = 0

  override arrayBuffer(): Promise<ArrayBuffer> {
    this.reads += 1
    return super.arrayBuffer()
  }
}

describe('small files', () => {
  it('have the leaves that they have alone, and are not read alone', async () => {
    const files = Array.from({ length: 600 }, (_, i) => new CountedFile([`file ${i}`.repeat(i % 7)]))
    const small = new SmallFiles(files, KIB)
    for (const file of files) {
      const leaf = await small.leafOf(file)
      const alone = new Uint8Array(await new Blob([file]).arrayBuffer())
      expect(leaf).toMatchObject({ size: file.size, block: file, cid: { key: (await cidOf(RAW, alone)).key } })
      expect(file.reads).toBe(0)
    }
  })

  it('are hashed in a task for a few of them', async () => {
    let hashed = 0
    let most = 0
    const { digest } = SubtleCrypto.prototype
    // Chromium has the hash of a few bytes in the task of the call.
    SubtleCrypto.prototype.digest = () => {
      most = Math.max(most, ++hashed)
      return Promise.resolve(new ArrayBuffer(32))
    }
    try {
      const files = Array.from({ length: 1000 }, (_, i) => new Blob([`file ${i}`]))
      const small = new SmallFiles(files, KIB)
      let isOver = false
      const all = (async () => {
        for (const file of files) await small.leafOf(file)
      })().finally(() => (isOver = true))
      while (!isOver) {
        hashed = 0
        await nextTask()
      }
      await all
    } finally {
      SubtleCrypto.prototype.digest = digest
    }
    // Two groups may be read at the same time.
    expect(most).toBeLessThanOrEqual(2 * GROUP_FILES_MAX)
  })

  it('may be the same file in two places', async () => {
    const file = new Blob(['twice'])
    const small = new SmallFiles([file, file], KIB)
    expect(await small.leafOf(file)).toEqual(await small.leafOf(file))
  })

  it('are not those that have several leaves, or would fill the memory', async () => {
    const large = new Blob([new Uint8Array(2 * KIB)])
    expect(await new SmallFiles([large], KIB).leafOf(large)).toBeNull()
    const huge = new Blob([new Uint8Array(200 * KIB)])
    expect(await new SmallFiles([huge], 1 << 20).leafOf(huge)).toBeNull()
  })

  it('reject when one of their group cannot be read', async () => {
    const lost = new Blob(['lost'])
    const group = [new Blob(['here']), lost]
    const small = new SmallFiles(group, KIB)
    // As a file that was changed since it was chosen.
    const original = Blob.prototype.arrayBuffer
    Blob.prototype.arrayBuffer = () => Promise.reject(new DOMException('changed', 'NotReadableError'))
    try {
      await expect(small.leafOf(lost)).rejects.toThrow('changed')
    } finally {
      Blob.prototype.arrayBuffer = original
    }
  })
})
