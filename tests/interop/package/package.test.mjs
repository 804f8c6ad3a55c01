// A project outside the workspace that uses the packages, as they would be on crates.io: the one that `watchfire new` writes.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { newFolder } from '../lib/folders.mjs'
import { binary, start } from '../lib/server.mjs'
import { collectEvents, connect, variants } from '../lib/test-client.mjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const CARGO = process.env.CARGO || 'cargo'
const LOCKED = process.env.CI ? ['--locked'] : []
const TARGET = path.resolve(REPOSITORY, process.env.CARGO_TARGET_DIR ?? 'target')

const cargo = (args, cwd = REPOSITORY) =>
  execFileSync(CARGO, args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 26, stdio: ['ignore', 'pipe', 'inherit'] })

/** Unpacks every package that may be published into `folder`; returns their names. */
function unpackAll(folder) {
  const { packages } = JSON.parse(cargo(['metadata', '--no-deps', '--format-version', '1', ...LOCKED]))
  const isPublic = ({ publish }) => publish === null
  const excluded = packages.filter((each) => !isPublic(each)).flatMap(({ name }) => ['--exclude', name])
  // Whether the packages compile is what this test finds out, so cargo need not.
  cargo(['package', '--workspace', '--no-verify', '--allow-dirty', '--quiet', ...LOCKED, ...excluded])
  mkdirSync(folder)
  return packages.filter(isPublic).map(({ name, version }) => {
    execFileSync('tar', ['-xzf', path.join(TARGET, 'package', `${name}-${version}.crate`), '-C', folder])
    return { name, folder: path.join(folder, `${name}-${version}`) }
  })
}

/** The project that `watchfire new` writes, with the packages in place of those on crates.io. */
function writeProject(folder, packages) {
  execFileSync(binary('watchfire'), ['new', folder])
  const patches = packages.map((each) => `${each.name} = { path = ${JSON.stringify(each.folder)} }`)
  const workspace = readFileSync(path.join(REPOSITORY, 'Cargo.toml'), 'utf8')
  // With the profile of the workspace, what the workspace built of other crates is used again.
  const profile = workspace.split(/^(?=\[)/m).filter((section) => section.startsWith('[profile.dev'))
  appendFileSync(
    path.join(folder, 'Cargo.toml'),
    `
[patch.crates-io]
${patches.join('\n')}

${profile.join('')}`,
  )
  // The same releases of all other crates as in the workspace.
  cpSync(path.join(REPOSITORY, 'Cargo.lock'), path.join(folder, 'Cargo.lock'))
}

// Compiling takes minutes where the workspace was not built.
describe('the packages', () => {
  const folder = newFolder()
  let packages
  let server

  before(async () => {
    packages = unpackAll(path.join(folder, 'packages'))
    const project = path.join(folder, 'outside')
    writeProject(project, packages)
    cargo(['build', '--quiet', '--target-dir', TARGET], project)
    server = await start(path.join(TARGET, 'debug/outside'), ['127.0.0.1:0'], /^ws:\/\/127\.0\.0\.1:(\d+)\/socket$/)
  })
  after(() => server?.stop())

  it('run the channel of the project', async (t) => {
    const [variant] = variants
    const writer = await connect(t, server, variant).join('rooms:lobby', { user: 'ada' })
    const messages = collectEvents(await connect(t, server, variant).join('rooms:lobby', { user: 'bo' }), 'new_msg')
    const reply = new Promise((resolve) => writer.push('new_msg', { text: 'two eggs' }).receive('ok', resolve))
    assert.deepEqual(await reply, {})
    assert.deepEqual(await messages.next(), { user: 'ada', text: 'two eggs' })
  })

  it('add at most 110 crates to a program of channels alone', () => {
    const lines = cargo(['tree', '--prefix', 'none', '--no-dedupe', '--edges', 'normal,build'], path.join(folder, 'outside'))
    const crates = new Set(
      lines
        .trim()
        .split('\n')
        .map((line) => line.split(' ').slice(0, 2).join(' ')),
    )
    assert(crates.size <= 110, `${crates.size} crates`)
    assert(![...crates].some((name) => name.startsWith('libp2p')), 'libp2p is among them')
  })

  it('contain the web client', () => {
    const { folder: serverPackage } = packages.find(({ name }) => name === 'watchfire-pages')
    const [packed, built] = [path.join(serverPackage, 'web-client'), path.join(REPOSITORY, 'web/dist')]
    assert.deepEqual(readdirSync(packed, { recursive: true }).sort(), readdirSync(built, { recursive: true }).sort())
    assert.equal(readFileSync(path.join(packed, 'index.html'), 'utf8'), readFileSync(path.join(built, 'index.html'), 'utf8'))
  })

  it('contain a readme and both licences, and no tests', () => {
    for (const each of packages) {
      for (const name of ['README.md', 'LICENSE-MIT', 'LICENSE-APACHE']) {
        assert(existsSync(path.join(each.folder, name)), `${each.name} has no ${name}`)
      }
      assert(!readdirSync(each.folder).includes('tests'), `${each.name} has its tests`)
    }
  })
})
