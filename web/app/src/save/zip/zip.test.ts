import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 as zlibCrc32 } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { isSameBytes, type Bytes } from '@watchfire/pages/content'
import { pattern } from '../../../../packages/pages/test/pattern.ts'
import { crc32 } from './crc32.ts'
import { blockHead, descriptor, directoryEnd, directoryEntry, memberHeader, packedSize, zipSize } from './headers.ts'
import { zip, type ZipMember } from './zip.ts'

const AT = new Date(2026, 10, 21, 18, 30, 8)
const GIB = 2 ** 30
const utf8 = new TextEncoder()

const member = (path: string, bytes: Bytes): ZipMember => ({
  path,
  size: bytes.length,
  read: async () => new Blob([bytes]).stream() as ReadableStream<Bytes>,
})
const made = async (members: readonly ZipMember[]) => {
  const { size, read } = zip(members, AT)
  const bytes = new Uint8Array(await new Response(read(new AbortController().signal)).arrayBuffer())
  expect(bytes.length).toBe(size)
  return bytes
}

/** The names, sizes, times and offsets that Python's zip reader finds. It also verifies every CRC. */
function readByPython(bytes: Uint8Array): { name: string; size: number; time: number[]; mode: number; offset: number }[] {
  const folder = mkdtempSync(join(tmpdir(), 'watchfire-zip-'))
  try {
    const path = join(folder, 'made.zip')
    writeFileSync(path, bytes)
    const script = [
      'import json, sys, zipfile',
      'z = zipfile.ZipFile(sys.argv[1])',
      'assert z.testzip() is None',
      'print(json.dumps([dict(name=i.filename, size=i.file_size, time=i.date_time, mode=i.external_attr >> 16, offset=i.header_offset) for i in z.infolist()]))',
    ].join('\n')
    return JSON.parse(execFileSync('python3', ['-c', script, path], { encoding: 'utf8', maxBuffer: 1 << 26 }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const hasJava = spawnSync('java', ['--version']).status === 0

/** The names, sizes and checksums that Java finds while it reads from the start. */
function readByJava(bytes: Uint8Array): string {
  const folder = mkdtempSync(join(tmpdir(), 'watchfire-zip-'))
  try {
    const program = `import java.util.zip.*;
    class Read { public static void main(String[] a) throws Exception {
      var zip = new ZipInputStream(System.in);
      for (ZipEntry entry; (entry = zip.getNextEntry()) != null; ) {
        var crc = new CRC32(); var all = zip.readAllBytes(); crc.update(all);
        System.out.println(entry.getName() + " " + all.length + " " + crc.getValue());
      } } }`
    writeFileSync(join(folder, 'Read.java'), program)
    return execFileSync('java', ['-Xshare:auto', join(folder, 'Read.java')], { encoding: 'utf8', input: bytes }).trim()
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describe('a zip file', () => {
  it('can be read by other tools, with names in every script', async () => {
    const names = ['notes.md', 'Grüße 世界/🔥.txt', 'empty']
    const bytes = await made([
      member('notes.md', pattern(100)),
      member('Grüße 世界/🔥.txt', pattern(300_000)),
      member('empty', new Uint8Array()),
    ])
    const found = readByPython(bytes)
    expect(found.map(({ name }) => name)).toEqual(names)
    expect(found.map(({ size }) => size)).toEqual([100, 300_000, 0])
    expect(found[0]).toMatchObject({ time: [2026, 11, 21, 18, 30, 8], mode: 0o100644, offset: 0 })
  })

  it.runIf(hasJava)('can be read from its start, as Java does', async () => {
    const contents = [0, 1, 65_534, 65_535, 65_536, 200_000].map((size) => pattern(size))
    const bytes = await made(contents.map((content, i) => member(`${i}`, content)))
    expect(readByJava(bytes)).toBe(contents.map((content, i) => `${i} ${content.length} ${zlibCrc32(content)}`).join('\n'))
  })

  it('without files is valid', async () => {
    expect(readByPython(await made([]))).toEqual([])
  })

  it('reads small files that are here together, and others alone', async () => {
    const read: string[] = []
    const contents = new Map(Array.from({ length: 300 }, (_, i) => [`${i}`, pattern(i === 200 ? 200_000 : i * 10)]))
    const members = [...contents].map(([path, bytes]) => ({
      ...member(path, bytes),
      read: (signal: AbortSignal) => {
        read.push(path)
        return member(path, bytes).read(signal)
      },
    }))
    const whole = (path: string) => () => Promise.resolve(new Blob([contents.get(path) ?? '']))
    const bytes = await made(members.map((each) => ({ ...each, whole: whole(each.path) })))
    expect(read).toEqual(['200'])
    expect(readByPython(bytes).map(({ size }) => size)).toEqual([...contents.values()].map(({ length }) => length))

    // One of them is not here, and another cannot be read.
    const lacks = (path: string) => (path === '3' ? () => null : path === '290' ? () => Promise.reject(new Error('gone')) : whole(path))
    expect(await made(members.map((each) => ({ ...each, whole: lacks(each.path) })))).toEqual(bytes)
    expect(read).toContain('3')
    expect(read).toContain('290')
    expect(read.length).toBeLessThan(contents.size)
  })

  it('with very many files uses zip64 records', async () => {
    const read = async () => new ReadableStream<Bytes>({ start: (controller) => controller.close() })
    const members = Array.from({ length: 65_536 }, (_, i) => ({ path: `${i}`, size: 0, read }))
    expect(readByPython(await made(members)).length).toBe(65_536)
  })

  it('has a known length before it is created', () => {
    const members = [
      { name: utf8.encode('a'), size: 5 * GIB },
      { name: utf8.encode('bb'), size: 10 },
    ]
    const first =
      memberHeader({ name: utf8.encode('a'), size: 5 * GIB, at: AT }).length +
      packedSize(5 * GIB) +
      descriptor({ size: 5 * GIB, crc: 0 }).length
    const second = memberHeader({ name: utf8.encode('bb'), size: 10, at: AT }).length + 15 + descriptor({ size: 10, crc: 0 }).length
    const entries = [
      directoryEntry({ name: utf8.encode('a'), size: 5 * GIB, at: AT, crc: 0, offset: 0 }).length,
      directoryEntry({ name: utf8.encode('bb'), size: 10, at: AT, crc: 0, offset: first }).length,
    ]
    const directory = entries.reduce((sum, n) => sum + n)
    const end = directoryEnd(2, directory, first + second).length
    expect(zipSize(members)).toBe(first + second + directory + end)
  })

  it('with a member beyond 4 GiB can be read by other tools', () => {
    // A sparse file: its middle is never written, and only its end is read.
    const folder = mkdtempSync(join(tmpdir(), 'watchfire-zip-'))
    try {
      const [large, small] = [
        { name: utf8.encode('large'), size: 5 * GIB },
        { name: utf8.encode('small'), size: 3 },
      ]
      const words = utf8.encode('abc')
      const offset = memberHeader({ ...large, at: AT }).length + packedSize(large.size) + descriptor({ size: large.size, crc: 7 }).length
      const behind = [memberHeader({ ...small, at: AT }), blockHead(3, true), words, descriptor({ size: 3, crc: crc32(words) })]
      const entries = [
        directoryEntry({ ...large, at: AT, crc: 7, offset: 0 }),
        directoryEntry({ ...small, at: AT, crc: crc32(words), offset }),
      ]
      const start = offset + behind.reduce((sum, { length }) => sum + length, 0)
      const end = directoryEnd(
        2,
        entries.reduce((sum, { length }) => sum + length, 0),
        start,
      )
      for (const [name, pieces] of [
        ['head', [memberHeader({ ...large, at: AT })]],
        ['tail', [...behind, ...entries, end]],
      ] as const) {
        writeFileSync(join(folder, name), Buffer.concat(pieces))
      }
      const script = [
        'import json, os, sys, zipfile',
        'folder, offset = sys.argv[1], int(sys.argv[2])',
        'path = os.path.join(folder, "made.zip")',
        'with open(path, "wb") as f:',
        '  f.write(open(os.path.join(folder, "head"), "rb").read()); f.seek(offset); f.write(open(os.path.join(folder, "tail"), "rb").read())',
        'z = zipfile.ZipFile(path)',
        'print(json.dumps([[i.filename, i.file_size, i.header_offset] for i in z.infolist()] + [z.read("small").decode()]))',
      ].join('\n')
      const found = JSON.parse(execFileSync('python3', ['-c', script, folder, String(offset)], { encoding: 'utf8' }))
      expect(found).toEqual([['large', 5 * GIB, 0], ['small', 3, offset], 'abc'])
      expect(readFileSync(join(folder, 'head')).length).toBe(30 + 5 + 20)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('ends with an error when a file does not have its stated size', async () => {
    const lying = { ...member('a', pattern(10)), size: 11 }
    await expect(new Response(zip([lying], AT).read(new AbortController().signal)).arrayBuffer()).rejects.toThrow('stated size')
  })
})

describe('the CRC', () => {
  it('equals that of zlib for any chunks', () => {
    const bytes = pattern(10_007)
    for (const cut of [0, 1, 7, 8, 9, 5000, 10_007]) {
      expect(crc32(bytes.subarray(cut), crc32(bytes.subarray(0, cut)))).toBe(zlibCrc32(bytes))
    }
    expect(isSameBytes(bytes, pattern(10_007))).toBe(true)
  })
})
