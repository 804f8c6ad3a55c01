// docs/contributing/where.md names the places of decisions. Each file must exist, and must have the names that follow it in its row.

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import test from 'node:test'
import { fileURLToPath } from 'node:url'

const REPOSITORY = new URL('../../', import.meta.url)
const INDEX = 'docs/contributing/where.md'

/** @param {string} file */
const pathOf = (file) => fileURLToPath(new URL(file, REPOSITORY))

/** @param {string} text */
const isFile = (text) => text.includes('/') || text === 'Makefile'

/** The rows of the tables: the question, and the files with their names. */
function rows() {
  const lines = readFileSync(pathOf(INDEX), 'utf8').split('\n')
  const cells = lines.filter((line) => line.startsWith('| ') && line !== '| question | place |').map((line) => line.split(' | '))
  return cells.map(([question = '', place = '', ...rest]) => {
    assert.deepEqual(rest, [], `the row "${question}" has two cells`)
    /** @type {{ file: string, names: string[] }[]} */
    const places = []
    for (const [, code = ''] of place.matchAll(/`([^`]+)`/g)) {
      if (isFile(code)) places.push({ file: code, names: [] })
      else places.at(-1)?.names.push(code)
    }
    return { question: question.slice(2), places }
  })
}

test('each row names a file, and a name in it', () => {
  const all = rows()
  assert.ok(all.length > 100, `the index has ${all.length} rows`)
  const incomplete = all.filter(({ places }) => places.length === 0 || places.some(({ names }) => names.length === 0))
  assert.deepEqual(incomplete, [])
})

test('each question is asked once', () => {
  const questions = rows().map(({ question }) => question)
  assert.deepEqual(
    questions.filter((question, at) => questions.indexOf(question) !== at),
    [],
  )
})

test('each file exists, and has its names', () => {
  const faults = rows().flatMap(({ question, places }) =>
    places.flatMap(({ file, names }) => {
      if (!existsSync(pathOf(file))) return [`${question} ${file} does not exist`]
      const words = new Set(readFileSync(pathOf(file), 'utf8').match(/\w+/g))
      return names.filter((name) => !words.has(name)).map((name) => `${question} ${file} has no ${name}`)
    }),
  )
  assert.deepEqual(faults, [], `correct ${INDEX}`)
})
