// A project outside the workspace that uses the packages, as they would be on crates.io. Its program is that of the
// tutorial docs/tutorial/channels.md.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { start } from '../lib/server.mjs'
import { collectEvents, connect, variants } from '../lib/test-client.mjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const CARGO = process.env.CARGO || 'cargo'
const LOCKED = process.env.CI ? ['--locked'] : []
const TARGET = path.resolve(REPOSITORY, process.env.CARGO_TARGET_DIR ?? 'target')

const cargo = (args, cwd = REPOSITORY) => execFileSync(CARGO, args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 26, stdio: ['ignore', 'pipe', 'inherit'] })

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

/** The program of the tutorial, on a free port instead of 4000, and with the pages of the web client. */
function tutorialProgram() {
  const text = readFileSync(path.join(REPOSITORY, 'docs/tutorial/channels.md'), 'utf8')
  const program = /^```rust\n(.*?)^```$/ms.exec(text)[1]
  const server = 'Server::new(Settings::default())'
  assert(program.includes(server), `the tutorial has no ${server}`)
  return program.replace(server, `{
        let mut settings = Settings::default();
        settings.server.listen = vec!["127.0.0.1:0".parse()?];
        Server::new(settings).with_pages()
    }`)
}

function writeProject(folder, packages) {
  const patches = packages.map((each) => `${each.name} = { path = ${JSON.stringify(each.folder)} }`)
  const workspace = readFileSync(path.join(REPOSITORY, 'Cargo.toml'), 'utf8')
  const version = /^version = "(.*)"$/m.exec(workspace)[1]
  // With the profile of the workspace, what the workspace built of other crates is used again.
  const profile = workspace.split(/^(?=\[)/m).filter((section) => section.startsWith('[profile.dev'))
  const manifest = `[package]
name = "outside"
version = "1.0.0"
edition = "2024"

[dependencies]
watchfire-server = "${version}"
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt"] }

[patch.crates-io]
${patches.join('\n')}

${profile.join('')}`
  mkdirSync(path.join(folder, 'src'), { recursive: true })
  writeFileSync(path.join(folder, 'Cargo.toml'), manifest)
  writeFileSync(path.join(folder, 'src/main.rs'), tutorialProgram())
  // The same releases of all other crates as in the workspace.
  cpSync(path.join(REPOSITORY, 'Cargo.lock'), path.join(folder, 'Cargo.lock'))
}

// Compiling takes minutes where the workspace was not built.
describe('the packages', () => {
  let folder
  let packages
  let server

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'watchfire-package-'))
    packages = unpackAll(path.join(folder, 'packages'))
    const project = path.join(folder, 'outside')
    writeProject(project, packages)
    cargo(['build', '--quiet', '--target-dir', TARGET], project)
    server = await start(path.join(TARGET, 'debug/outside'), [], /^ws:\/\/127\.0\.0\.1:(\d+)\/socket$/)
  })
  after(async () => {
    await server?.stop()
    if (folder) rmSync(folder, { recursive: true })
  })

  it('run the channel of the tutorial', async (t) => {
    const [variant] = variants
    const writer = await connect(t, server, variant).join('orders:7')
    const notes = collectEvents(await connect(t, server, variant).join('orders:7'), 'note')
    const reply = new Promise((resolve) => writer.push('note', { text: 'two eggs' }).receive('ok', resolve))
    assert.deepEqual(await reply, { order: 7 })
    assert.deepEqual(await notes.next(), { text: 'two eggs' })
  })

  it('contain the web client', async () => {
    const response = await fetch(server.http('/'))
    assert.equal(response.status, 200)
    assert.equal(await response.text(), readFileSync(path.join(REPOSITORY, 'web/dist/index.html'), 'utf8'))
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
