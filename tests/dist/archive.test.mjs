// The archive, its debug symbols, the lists of components and the checksums.

import assert from 'node:assert/strict'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'

import {
  DIST,
  REPOSITORY,
  crates,
  debugArchive,
  endingAfterAll,
  run,
  temporaryFolder,
  unpackArchive,
  version,
  webPackages,
} from './lib/packed.mjs'

const atEnd = endingAfterAll()
const root = unpackArchive(atEnd)
const program = path.join(root, 'bin/watchfire')

/** The names of a program's commands, from its help. */
function commandsOf(...words) {
  const help = run(program, [...words, '--help'])
  const list = /^Commands:\n(.*?)\n\n/ms.exec(help)?.[1] ?? ''
  return [...list.matchAll(/^ {2}(\S+)/gm)].map(([, name]) => name).filter((name) => name !== 'help')
}

describe('the checksums', () => {
  it('name every file, and match', () => {
    const sums = readFileSync(path.join(DIST, 'SHA256SUMS'), 'utf8')
    const named = sums
      .trim()
      .split('\n')
      .map((line) => line.split('  ')[1])
    assert.deepEqual(
      named.sort(),
      readdirSync(DIST)
        .filter((file) => file !== 'SHA256SUMS')
        .sort(),
    )
    run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: DIST })
  })
})

describe('the archive', () => {
  it('has a program with CPU profiles and traces', () => {
    assert.match(run(program, ['get', '--help']), /--cpu-profile/)
    run(program, ['serve', '--check', '--set', 'traces.endpoint=http://127.0.0.1:4318'])
  })

  it('has a program that reports the version and carries no symbols', () => {
    assert.equal(run(program, ['--version']), `watchfire ${version}\n`)
    assert.match(run('file', ['--brief', program]), /, stripped/)
  })

  it('has a manual page for every command, without warnings', () => {
    const pagesOf = (...words) => [['watchfire', ...words].join('-'), ...commandsOf(...words).flatMap((word) => pagesOf(...words, word))]
    const expected = pagesOf().map((name) => `${name}.1`)
    const folder = path.join(root, 'share/man/man1')
    assert.ok(expected.length > 10, expected.join(' '))
    assert.deepEqual(readdirSync(folder).sort(), expected.sort())
    for (const page of expected) {
      const file = path.join(folder, page)
      const output = run('sh', ['-c', 'LC_ALL=C.UTF-8 man --warnings --encoding=utf8 --local-file "$1" 2>&1 >/dev/null', 'sh', file])
      assert.equal(output, '', page)
    }
  })

  it('has completions that their shells accept, and that complete commands', () => {
    const file = (name) => path.join(root, 'share', name)
    const bash = file('bash-completion/completions/watchfire')
    run('bash', ['-n', bash])
    run('zsh', ['-n', file('zsh/site-functions/_watchfire')])
    run('fish', ['--no-execute', file('fish/vendor_completions.d/watchfire.fish')])
    const complete =
      'source "$1"; COMP_WORDS=(watchfire ""); COMP_CWORD=1; _watchfire watchfire "" watchfire; printf "%s\\n" "${COMPREPLY[@]}"'
    const offered = run('bash', ['-c', complete, 'bash', bash]).trim().split('\n')
    assert.deepEqual(offered.filter((word) => !word.startsWith('-') && word !== 'help').sort(), commandsOf().sort())
  })

  it('has the licences, the settings and the units', () => {
    const documents = readdirSync(path.join(root, 'share/doc/watchfire'))
    for (const name of [
      'README.md',
      'LICENSE-MIT',
      'LICENSE-APACHE',
      'config.example.toml',
      'watchfire.service',
      'watchfire.socket',
      'watchfire-mirror.service',
    ]) {
      assert.ok(documents.includes(name), name)
    }
    const example = path.join(root, 'share/doc/watchfire/config.example.toml')
    run(program, ['serve', '--check', '--config', example])
  })

  it('has its debug symbols in a second archive, which the program names', () => {
    const folder = temporaryFolder(atEnd)
    run('tar', ['--extract', '--gzip', `--file=${debugArchive}`, `--directory=${folder}`])
    assert.ok(existsSync(path.join(folder, 'watchfire.debug')))
    assert.match(run('readelf', ['--string-dump=.gnu_debuglink', program]), /watchfire\.debug/)
    assert.match(run('readelf', ['--wide', '--sections', path.join(folder, 'watchfire.debug')]), /\.symtab/)
  })
})

describe('the lists of components', () => {
  const read = (file) => JSON.parse(readFileSync(file, 'utf8'))
  const namesOf = (list) => new Set(list.components.map(({ purl }) => purl.split('?')[0]))

  it('name every crate that Cargo links into the program, with its version', () => {
    const features = /^export RELEASE_FEATURES=(.*)$/m.exec(readFileSync(path.join(REPOSITORY, 'packaging/dist.sh'), 'utf8'))[1]
    const list = read(crates)
    assert.equal(list.bomFormat, 'CycloneDX')
    const format = ['--prefix', 'none', '--format', '{p}', '--edges', 'normal,no-proc-macro']
    const tree = run(process.env.CARGO ?? 'cargo', ['tree', '--locked', '-p', 'watchfire-cli', '--features', features, ...format], {
      cwd: REPOSITORY,
    })
    const linked = [...tree.matchAll(/^(\S+) v(\S+)/gm)].map(([, name, number]) => `pkg:cargo/${name}@${number}`)
    const listed = namesOf(list)
    const missing = linked.filter((name) => !listed.has(name) && !name.startsWith('pkg:cargo/watchfire-cli@'))
    assert.ok(linked.length > 100)
    assert.deepEqual([...new Set(missing)], [])
  })

  it('name every npm package of the web client', () => {
    const manifests = ['web/app', 'web/packages/pages'].map((folder) => read(path.join(REPOSITORY, folder, 'package.json')))
    const installed = read(path.join(REPOSITORY, 'web/package-lock.json')).packages
    const names = manifests.flatMap(({ dependencies }) => Object.keys(dependencies)).filter((name) => !name.startsWith('@watchfire/'))
    const listed = namesOf(read(webPackages))
    for (const name of names) {
      const { version } = installed[`node_modules/${name}`]
      assert.ok(listed.has(`pkg:npm/${name.replace('@', '%40')}@${version}`), name)
    }
  })

  it('have no path of the machine that wrote them', () => {
    for (const file of [crates, webPackages]) assert.ok(!readFileSync(file, 'utf8').includes(REPOSITORY), file)
  })
})
