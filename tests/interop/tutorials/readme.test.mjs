// README.md works as it is written: a reader in a clone types its commands in their order. Only the ports differ.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { Kubo, whyNoKubo } from '../lib/kubo.mjs'
import { run } from '../lib/program.mjs'
import { commandsOf, NOT_RUN, notRunIn, printedBy, Reader, REPOSITORY, sectionsOf } from './reader.mjs'

const CARGO = process.env.CARGO || 'cargo'
const read = (/** @type {string} */ document) => readFileSync(REPOSITORY + document, 'utf8')

describe('README.md', () => {
  let kubo
  let reader

  before(async () => {
    if (!whyNoKubo) kubo = await Kubo.start()
    const js = (code) => printedBy([reader.startScript(code)], /(?<=\/\/ prints ).*/.exec(code)[0])
    reader = await Reader.open('README.md', {
      edit: (text) => text.replaceAll('target/serve/watchfire', 'watchfire'),
      programs: kubo ? [path.dirname(kubo.ipfs)] : [],
      env: { IPFS_PATH: kubo?.folder },
      handlers: { js },
    })
    writeFileSync(path.join(reader.folder, 'film.mp4'), randomBytes(3_000_000))
    mkdirSync(path.join(reader.folder, 'trip'))
    writeFileSync(path.join(reader.folder, 'trip/notes.md'), 'Hello, world!\n')
  })
  after(async () => {
    await reader?.close()
    await kubo?.stop()
  })

  for (const { heading } of sectionsOf(read('README.md'))) {
    const skip = heading.includes('kubo') && whyNoKubo
    it(`the README works: ${heading}`, { skip }, () => reader.follow(heading))
  }
})

it('a project that is written from a clone resolves', async (t) => {
  const reader = await Reader.open('docs/how-to/use-as-a-library.md')
  t.after(() => reader.close())
  await reader.follow('Start a project')
  const project = path.join(reader.folder, '../my-app')
  cpSync(`${REPOSITORY}Cargo.lock`, path.join(project, 'Cargo.lock'))
  await run(CARGO, ['tree', '--offline'], { cwd: project, maxBuffer: 2 ** 26 })
})

it('each command that is not run has a reason, and is in a document', () => {
  const tutorials = readdirSync(`${REPOSITORY}docs/tutorial`).map((name) => `docs/tutorial/${name}`)
  const blocks = ['README.md', ...tutorials].flatMap((document) => sectionsOf(read(document)).flatMap((section) => section.blocks))
  const commands = blocks.filter(({ language }) => /^(sh|console)$/.test(language)).flatMap(commandsOf)
  assert.deepEqual(
    Object.keys(NOT_RUN).filter((words) => !commands.some(({ command }) => notRunIn(command) === words)),
    [],
    'these commands are in no document',
  )
})
