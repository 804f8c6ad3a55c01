import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { buildDirectory, buildFile, unixfsV1_2025, type BuildOptions, type BuiltRoot, type NamedBlob, type Profile } from './build-dag.ts'
import { ContentError } from './error.ts'
import { pattern } from '../../test/pattern.ts'
import { listFiles } from './read-files.ts'
import { MemoryBlockStore } from './block-store.ts'
import { parseCid } from './cid.ts'
import { hashEntries } from './build-shards.ts'
import { ITEMS_PER_TASK, nextTask } from './tasks.ts'
import { readVectors } from '../../test/vectors.ts'

interface Vectors {
  profiles: Record<string, { raw_leaves: boolean; chunk_bytes: number; links_max: number; hamt_size_estimation: string }>
  files: { bytes: number; profile: string; cid: string; dag_bytes: number }[]
  texts: { text: string; profile: string; cid: string; dag_bytes: number }[]
  directories: {
    about: string
    profile: string
    entries?: { path: string; text?: string; bytes?: number; directory?: boolean; symlink?: string }[]
    numbered?: { count: number; name_digits: number }
    sharded?: boolean
    cid: string
    dag_bytes: number
  }[]
}

interface ShardedDirectory {
  directories: {
    profile: string
    count: number
    name_digits: number
    cid: string
    dag_bytes: number
    blocks: number
    found: { name: string; cid: string }
  }[]
}

/** Made with kubo, see its README. Profiles with leaves inside dag-pb nodes are not built here. */
const vectors = readVectors<Vectors>('cids.json')
const isOurs = ({ profile }: { profile: string }) => vectors.profiles[profile]?.raw_leaves === true

function profileOf(name: string): Profile {
  const profile = vectors.profiles[name]
  if (profile === undefined) throw new Error(`the vectors know their profile ${name}`)
  return { ...unixfsV1_2025, chunkBytes: profile.chunk_bytes, linksMax: profile.links_max }
}

async function rootOf(file: Blob, options: BuildOptions): Promise<BuiltRoot> {
  const building = buildFile(file, options)
  for (;;) {
    const step = await building.next()
    if (step.done) return step.value
  }
}

async function built(files: readonly NamedBlob[], profile = unixfsV1_2025): Promise<BuiltRoot> {
  const building = buildDirectory(files, { profile })
  for (;;) {
    const step = await building.next()
    if (step.done) return step.value
  }
}

const named = (paths: readonly string[]) => paths.map((path) => ({ path, blob: new Blob([path]) }))

describe('a file', () => {
  const files = vectors.files.filter((each) => isOurs(each) && each.bytes < 100_000_000)
  it.each(files)('of $bytes bytes has the CID that kubo gives it in $profile', async ({ bytes, profile, cid, dag_bytes }) => {
    const root = await rootOf(new Blob([pattern(bytes)]), { profile: profileOf(profile) })
    expect(root).toMatchObject({ size: bytes, dagBytes: dag_bytes, cid: { text: cid } })
  })

  it.each(vectors.texts.filter(isOurs))('saying $text has the CID that kubo gives it', async ({ text, profile, cid }) => {
    const root = await rootOf(new Blob([text]), { profile: profileOf(profile) })
    expect(root.cid.text).toBe(cid)
  })

  it('is built level by level', async () => {
    // Six leaves in twos: three nodes, then two, then the root.
    const profile = { ...unixfsV1_2025, chunkBytes: 10, linksMax: 2 }
    const sizes: number[] = []
    for await (const { size } of buildFile(new Blob([pattern(60)]), { profile })) sizes.push(size)
    expect(sizes.slice(0, 6)).toEqual([10, 10, 10, 10, 10, 10])
    expect(sizes).toHaveLength(6 + 3 + 2 + 1)
  })

  it('has leaves that are slices of it', async () => {
    for await (const { block, size } of buildFile(new Blob([pattern(3 << 20)]))) {
      expect(block instanceof Blob).toBe(size === 1 << 20)
    }
  })

  it('is not read any further after an abort', async () => {
    const stop = new AbortController()
    const building = buildFile(new Blob([pattern(100)]), {
      profile: { ...unixfsV1_2025, chunkBytes: 10 },
      signal: stop.signal,
    })
    await building.next()
    stop.abort()
    await expect(building.next()).rejects.toThrow(/abort/i)
  })
})

describe('a directory', () => {
  // Symbolic links and empty directories are left out, because browsers provide neither.
  const ours = vectors.directories.filter(
    (each) => isOurs(each) && (each.entries ?? []).every(({ directory, symlink }) => !directory && symlink === undefined),
  )
  it.each(ours)('of $about has the CID that kubo gives it in $profile', async (vector) => {
    const { entries, numbered, profile, cid, dag_bytes } = vector
    const files = numbered
      ? Array.from({ length: numbered.count }, (_, i) => `${i}`.padStart(numbered.name_digits, '0')).map((path) => ({
          path,
          blob: new Blob([]),
        }))
      : (entries ?? []).map(({ path, text, bytes }) => ({ path, blob: new Blob([text ?? pattern(bytes ?? 0)]) }))
    expect(await built(files, profileOf(profile))).toMatchObject({ dagBytes: dag_bytes, cid: { text: cid } })
  })

  it.each(readVectors<ShardedDirectory>('sharded_directories.json').directories.filter(isOurs))(
    'of $count entries is sharded as kubo does it, and read again',
    async ({ count, name_digits, cid, dag_bytes, blocks, found }) => {
      const names = Array.from({ length: count }, (_, i) => `${i}`.padStart(name_digits, '0'))
      const store = new MemoryBlockStore(1 << 24)
      const building = buildDirectory(named(names))
      let step = await building.next()
      for (; !step.done; step = await building.next()) {
        const { block, ...one } = step.value
        store.put(one.cid, block)
      }
      expect(step.value).toMatchObject({ dagBytes: dag_bytes, cid: { text: cid } })
      expect(store.blocks).toBe(blocks)
      const listed = listFiles(store, step.value.cid)?.files ?? []
      expect(new Set(listed.map(({ path }) => path))).toEqual(new Set(names))
      expect(listed.find(({ path }) => path === found.name)?.cid.text).toBe(found.cid)
    },
  )

  it('may have empty folders, and then has the CID that the terminal gives the folder', async () => {
    const building = buildDirectory(named(['a']), {}, ['b', 'c/d'])
    let step = await building.next()
    while (!step.done) step = await building.next()
    expect(step.value.cid.text).toBe('bafybeifb77i52r6zgcw75xnnncmr63qzd7jci657fofbrcfoar7ot6ckza')
    for (const wrong of ['a', 'a/b', '', '..']) {
      await expect(
        buildDirectory(named(['a']), {}, [wrong])
          .next()
          .then(() => undefined),
        wrong,
      ).rejects.toThrow(ContentError)
    }
  })

  it('is the same for any order of its files', async () => {
    const one = await built(named(['b', 'a/z', 'a/y', 'é', 'Z']))
    const other = await built(named(['Z', 'a/y', 'é', 'a/z', 'b']))
    expect(other.cid.text).toBe(one.cid.text)
    expect(one.size).toBe(1 + 3 + 3 + 2 + 1)
  })

  it('rejects invalid or repeated names', async () => {
    const wrong = [[''], ['/a'], ['a/'], ['a//b'], ['..'], ['a/../b'], ['a', 'a'], ['a', 'a/b'], ['a/b', 'a'], ['a\0'], ['\ud800']]
    for (const paths of wrong) await expect(built(named(paths)), JSON.stringify(paths)).rejects.toThrow(ContentError)
    await expect(built(named([`${'a/'.repeat(40)}b`]))).rejects.toThrow(ContentError)
  })
})

/** The most blocks that are hashed in one task of a build. The hash is there in the task of the call, as in Chromium for few bytes. */
async function hashedPerTask(build: () => Promise<unknown>): Promise<number> {
  let hashed = 0
  let most = 0
  let isOver = false
  const { digest } = SubtleCrypto.prototype
  SubtleCrypto.prototype.digest = (_, bytes) => {
    most = Math.max(most, ++hashed)
    return Promise.resolve(
      new Uint8Array(
        createHash('sha256')
          .update(new Uint8Array(bytes as ArrayBuffer))
          .digest(),
      ).buffer,
    )
  }
  try {
    const building = build().finally(() => (isOver = true))
    while (!isOver) {
      hashed = 0
      await nextTask()
    }
    await building
  } finally {
    SubtleCrypto.prototype.digest = digest
  }
  return most
}

describe('a build of very many files', () => {
  const blob = new Blob(['x'])

  it('reads the paths of a few files in a task', async () => {
    let read = 0
    let most = 0
    const files = Array.from({ length: 3000 }, (_, i) => ({
      blob,
      get path() {
        most = Math.max(most, ++read)
        return `${i}.txt`
      },
    }))
    let isOver = false
    const building = built(files).finally(() => (isOver = true))
    while (!isOver) {
      read = 0
      await nextTask()
    }
    await building
    expect(most).toBeLessThanOrEqual(ITEMS_PER_TASK)
  })

  it('hashes a few shards in a task', async () => {
    const files = Array.from({ length: 12_000 }, (_, i) => ({ path: `a name of some length ${i}`, blob }))
    expect(await hashedPerTask(() => built(files))).toBeLessThanOrEqual(ITEMS_PER_TASK)
  })

  it('hashes a few folders in a task', async () => {
    const folders = Array.from({ length: 3000 }, (_, i) => `folder ${i}`)
    const build = async () => {
      const building = buildDirectory([], {}, folders)
      while (!(await building.next()).done);
    }
    // And the folder that they are in.
    expect(await hashedPerTask(build)).toBeLessThanOrEqual(ITEMS_PER_TASK + 1)
  })
})

it('hashes the names of a few files in a task', () => {
  let read = 0
  const links = Array.from({ length: 3000 }, (_, i) => ({
    cid: parseCid('bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'),
    dagBytes: 1,
    get name() {
      read++
      return `${i}.txt`
    },
  }))
  const work = hashEntries(links)
  for (let isOver = false; !isOver; ) {
    read = 0
    isOver = work.next().done === true
    expect(read).toBeLessThanOrEqual(ITEMS_PER_TASK)
  }
})
