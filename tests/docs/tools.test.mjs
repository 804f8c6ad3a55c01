// The tools that choose and install: which tests a change needs, and what happens to programs that are missing.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { fileURLToPath } from 'node:url'

const cwd = fileURLToPath(new URL('../..', import.meta.url))
// In the container of CI, the clone belongs to another user.
const SAFE = { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'safe.directory', GIT_CONFIG_VALUE_0: '*' }

/** @param {string[]} files */
function plannedFor(...files) {
  const { stdout, stderr, status } = spawnSync(process.execPath, ['tests/changed.mjs', ...files], {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, ...SAFE, WORKSPACE: '' },
  })
  assert.equal(status, 0, stderr)
  return stdout.trim().split('\n')
}

test('a change of documents checks the documents, and compiles nothing', () => {
  const [command, named, ...rest] = plannedFor('docs/how-to/monitor.md', 'README.md')
  assert.equal(command, 'make --no-print-directory docs-links')
  assert.match(named ?? '', /^also affected, and not run: make rust-test .*tutorials/)
  assert.deepEqual(rest, [])
})

test('a change of the lab or of an experiment names the suites that run experiments', () => {
  assert.match(plannedFor('crates/lab/src/runner.rs').at(-1) ?? '', /browser.* test-networks .*test-tutorials/)
  const planned = plannedFor('experiments/networks.toml')
  assert.match(planned.at(-1) ?? '', / test-networks$/)
  assert(planned.includes('node tests/rust-tests.mjs watchfire-cli'))
  assert.match(plannedFor('experiments/gate/counts.mjs').at(-1) ?? '', / gate$/)
})

test('missing programs are named and not installed where nobody may install', () => {
  const { stdout, status } = spawnSync('/bin/bash', ['tests/install.sh', 'no-such-program:a-package', '/bin/bash:bash'], {
    cwd,
    encoding: 'utf8',
    env: { PATH: '/nowhere' },
  })
  assert.equal(status, 0)
  assert.match(stdout, /^not installed: no-such-program\. .* --no-install-recommends a-package, /)
})

test('each target in a document exists, and `make help` is short', () => {
  const makefile = readFileSync(`${cwd}/Makefile`, 'utf8')
  const targets = new Set([...makefile.matchAll(/^([a-z][a-z-]*):/gm)].map(([, name]) => name))
  const suites = new Set(
    [...readFileSync(`${cwd}/tests/interop/suites.mjs`, 'utf8').matchAll(/^ {2}'?([a-z0-9-]+)'?: \{/gm)].map(([, name]) => name),
  )
  const files = execFileSync('git', ['ls-files', '*.md'], { cwd, encoding: 'utf8', env: { ...process.env, ...SAFE } })
  const named = files
    .trim()
    .split('\n')
    .flatMap((file) =>
      [...readFileSync(`${cwd}/${file}`, 'utf8').matchAll(/`make (?:[A-Z_]+=\S+ )*([a-z][a-z0-9-]*)(?=[ `])/g)].map(
        ([, name = '']) => name,
      ),
    )
  assert.ok(named.length > 50, `documents name ${named.length} targets`)
  const isKnown = (/** @type {string} */ name) => targets.has(name) || suites.has(name.replace(/^(?:test|slice)-/, ''))
  assert.deepEqual(
    named.filter((name) => !isKnown(name)),
    [],
  )
  const help = execFileSync('make', ['--no-print-directory', 'help'], { cwd, encoding: 'utf8' })
  assert.ok(help.trim().split('\n').length <= 40, help)
})
