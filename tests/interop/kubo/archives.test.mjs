// Archives (CAR) that kubo and our program exchange.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { Kubo, whyNoKubo } from '../lib/kubo.mjs'
import { binary } from '../lib/server.mjs'

/** The options under which kubo creates the same CIDs as ours. */
const PROFILE = ['--cid-version=1', '--raw-leaves', '--chunker=size-1048576', '--max-file-links=1024']

describe('an archive', { skip: whyNoKubo }, () => {
  const folder = newFolder()
  let kubo

  const watchfire = (...args) => execFileSync(binary('watchfire'), args, { cwd: folder, encoding: 'utf8' })
  const cid = (name) => watchfire('cid', '--quiet', name).trim()

  before(async () => {
    mkdirSync(path.join(folder, 'trip', 'sub'), { recursive: true })
    writeFileSync(path.join(folder, 'trip', 'film'), randomBytes(5_000_000))
    writeFileSync(path.join(folder, 'trip', 'sub', 'notes.md'), 'Hello, world!\n')
    writeFileSync(path.join(folder, 'trip', 'nothing'), '')
    kubo = await Kubo.start()
  })
  after(() => kubo?.stop())

  it('of ours can be imported by kubo, and equals the one that kubo exports', async () => {
    for (const name of ['trip', 'trip/film', 'trip/sub/notes.md', 'trip/nothing']) {
      const root = cid(name)
      watchfire('car', 'export', name, '-o', 'ours.car')
      assert.match(await kubo.command(['dag', 'import', '--pin-roots', path.join(folder, 'ours.car')]), new RegExp(root))
      assert.deepEqual(await kubo.bytes(['dag', 'export', root]), readFileSync(path.join(folder, 'ours.car')), name)
      rmSync(path.join(folder, 'ours.car'))
    }
    assert.deepEqual(await kubo.cat(`${cid('trip')}/film`), readFileSync(path.join(folder, 'trip', 'film')))
  })

  it('of kubo can be extracted to its original files', async () => {
    const root = await kubo.add(path.join(folder, 'trip'), ...PROFILE)
    assert.equal(root, cid('trip'))
    writeFileSync(path.join(folder, 'theirs.car'), await kubo.bytes(['dag', 'export', root]))
    watchfire('car', 'import', 'theirs.car', '-o', 'again')
    assert.equal(cid('again'), root)
    const classic = await kubo.add(path.join(folder, 'trip', 'film'))
    writeFileSync(path.join(folder, 'classic.car'), await kubo.bytes(['dag', 'export', classic]))
    watchfire('car', 'import', 'classic.car', '-o', 'film')
    assert.deepEqual(readFileSync(path.join(folder, 'film')), readFileSync(path.join(folder, 'trip', 'film')))
  })
})
