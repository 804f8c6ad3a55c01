import { hashLeaf, type HashedLeaf } from './hash-leaf.ts'
import { cidOf, RAW } from './cid.ts'
import { nextTask } from './tasks.ts'

/** A file of at most this size is read together with others: opening each takes longer than reading it. */
const SMALL_BYTES_MAX = 128 << 10
/** Bytes and files that are read at once, and hashed in one task. Two groups are in memory. */
const GROUP_BYTES_MAX = 4 << 20
export const GROUP_FILES_MAX = 64

/** Hashes the small files of a directory in groups, ahead of the build that asks for them in order. */
export class SmallFiles {
  readonly #groups: Blob[][] = []
  readonly #groupOf = new Map<Blob, number>()
  readonly #started = new Map<number, Promise<ReadonlyMap<Blob, HashedLeaf>>>()

  /** `files`: in the order in which `leafOf` is called for them. Files above `bytesMax` are not small. */
  constructor(files: Iterable<Blob>, bytesMax: number) {
    let bytes = 0
    for (const file of files) {
      if (file.size > Math.min(bytesMax, SMALL_BYTES_MAX) || this.#groupOf.has(file)) continue
      const last = this.#groups.at(-1)
      const isFull = last === undefined || last.length >= GROUP_FILES_MAX || bytes + file.size > GROUP_BYTES_MAX
      if (isFull) {
        this.#groups.push([file])
        bytes = file.size
      } else {
        last.push(file)
        bytes += file.size
      }
      this.#groupOf.set(file, this.#groups.length - 1)
    }
  }

  /** The only leaf of a small file. `null` for other files. */
  async leafOf(file: Blob): Promise<HashedLeaf | null> {
    const group = this.#groupOf.get(file)
    if (group === undefined) return null
    const leaves = this.#start(group)
    void this.#start(group + 1)
    return (await leaves).get(file) ?? null
  }

  #start(number: number): Promise<ReadonlyMap<Blob, HashedLeaf>> {
    const known = this.#started.get(number)
    if (known !== undefined) return known
    const leaves = hashGroup(this.#groups[number] ?? [])
    // It is awaited later. Until then, a rejection must not count as unhandled.
    leaves.catch(() => {})
    this.#started.set(number, leaves)
    return leaves
  }
}

async function hashGroup(files: readonly Blob[]): Promise<ReadonlyMap<Blob, HashedLeaf>> {
  const bytes = new Uint8Array(await new Blob([...files]).arrayBuffer())
  // Chromium hashes few bytes without waiting. Group after group would be hashed and used in one task.
  await nextTask()
  const sizes = files.reduce((sum, { size }) => sum + size, 0)
  let at = 0
  const hashed = files.map(async (file): Promise<[Blob, HashedLeaf]> => {
    // A file has another length than it had. Alone, it is rejected or read as it is.
    if (bytes.length !== sizes) return [file, await hashLeaf(file)]
    const own = bytes.subarray(at, at + file.size)
    at += file.size
    return [file, { cid: await cidOf(RAW, own), block: file, size: own.length }]
  })
  const leaves = new Map(await Promise.all(hashed))
  await nextTask()
  return leaves
}
