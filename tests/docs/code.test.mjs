// Code in documents. A code block after a comment with a path is the file of that path. `{{#include}}` would stand there as text on a code host. A
// document that uses a package says how to get it before the first release.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import test from 'node:test'
import { fileURLToPath } from 'node:url'

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url))
/** @param {string} file */
const read = (file) => readFileSync(REPOSITORY + file, 'utf8')

test('each code block that names a file is that file', () => {
  let count = 0
  const inDocs = readdirSync(`${REPOSITORY}docs`, { recursive: true }).map((name) => `docs/${name}`)
  for (const document of [...readdirSync(REPOSITORY), ...inDocs].filter((name) => name.endsWith('.md'))) {
    const text = read(document)
    assert.doesNotMatch(text, /\{\{#include/, `${document}: write the code, after a comment with its path`)
    for (const [, file = '', code] of text.matchAll(/<!-- (\S+\.\w+) -->\n\n```\w+\n(.*?)\n```/gs)) {
      assert.equal(`${code}\n`, read(file), `${document} shows ${file}, which has changed: copy it`)
      count++
    }
  }
  assert.ok(count >= 5, `${count} code blocks name a file`)
})

/** Packages that no registry has before the first release, and the command with which a document gets each from a clone. */
const BEFORE_THE_RELEASE = [
  { shown: /npm install @watchfire|(?:from|import) '@watchfire/, isGotWith: 'npm install ../watchfire/target/npm/*.tgz' },
  { shown: /cargo install .*watchfire-cli/, isGotWith: 'cargo install --locked --path crates/cli' },
  { shown: /watchfire new [\w.]/, isGotWith: '--from' },
]

test('each document that uses a package says how to get it before the first release', () => {
  const listed = execFileSync('git', ['ls-files', '*.md'], { cwd: REPOSITORY, encoding: 'utf8' }).trim().split('\n')
  const documents = listed.filter((name) => name !== 'CHANGELOG.md').map((name) => ({ name, text: read(name) }))
  for (const { shown, isGotWith } of BEFORE_THE_RELEASE) {
    const using = documents.filter(({ text }) => shown.test(text))
    assert.notEqual(using.length, 0, `no document has ${shown}`)
    const silent = using.filter(({ text }) => !text.replace(/\s+/g, ' ').includes(isGotWith)).map(({ name }) => name)
    assert.deepEqual(silent, [], `say in these documents: until the first release, \`${isGotWith}\``)
  }
})

test('the README names pages and channels, and then a command, within 150 words', () => {
  const [beginning = ''] = read('README.md').split('```')
  assert.ok(beginning.trim().split(/\s+/).length <= 150)
  assert.match(beginning, /page.*channels/s)
})
