import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const SOURCES = import.meta.dirname
const IMPORT = /\b(?:from|import)\s*\(?\s*'(\.[^'?]+)/g

/** The folders of the table "Inside the web client", from the top to the bottom, and in a row from left to right. */
function foldersInOrder(): string[] {
  const architecture = readFileSync(path.join(SOURCES, '../../ARCHITECTURE.md'), 'utf8')
  const section = architecture.split('\n## ').find((text) => text.startsWith('Inside the web client')) ?? ''
  const cells = section.split('\n').flatMap((line) => /^\| (`[^|]+)/.exec(line)?.slice(1) ?? [])
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)\/`/g)].flatMap(([, folder]) => folder ?? []))
}

/** The folder of each source file, and the folders that it imports. Tests may also use the fakes of a folder above. */
function imports(): { file: string; from: string; to: string }[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
  const sources = files.filter((file) => /\.tsx?$/.test(file) && !/\.test\.tsx?$/.test(file) && file.includes(path.sep))
  return sources.flatMap((file) => {
    const targets = [...readFileSync(path.join(SOURCES, file), 'utf8').matchAll(IMPORT)]
    return targets.map(([, target = '']) => ({ file, from: folderOf(file), to: folderOf(path.join(path.dirname(file), target)) }))
  })
}

const folderOf = (file: string): string => file.split(path.sep)[0] ?? ''

describe('the folders of the web client', () => {
  const order = foldersInOrder()

  it('are all in the table of ARCHITECTURE.md, once', () => {
    const folders = readdirSync(SOURCES, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    expect([...order].sort()).toEqual(folders.map(({ name }) => name).sort())
  })

  it('import only folders below them, so there is no cycle', () => {
    const all = imports()
    expect(all.length).toBeGreaterThan(500)
    const upward = all.filter(({ from, to }) => order.indexOf(to) < order.indexOf(from))
    expect(upward.map(({ file, to }) => `${file} imports ${to}/`)).toEqual([])
  })
})
