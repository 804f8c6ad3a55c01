// The packages as they would be published, with each bundler, compiler and framework.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'
import { before, test } from 'node:test'

import { newVisitor } from '../browser/page-driver.mjs'
import { closeServer, listen } from '../lib/listen.mjs'
import { bundle, develop, NAMES, VITES } from './bundlers.mjs'
import { buildPackages, ENTRY_POINTS, newProject } from './packed.mjs'
import { typeErrors } from './typed-program.mjs'

const CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'

/** Uses everything that needs more than one file: the worker that writes to the disk, and code that is loaded later. */
const PROGRAM = `
import { WatchFire } from '@watchfire/element'
import { parseCid } from '@watchfire/pages/content'
import { showStill } from '@watchfire/pages/files'
import { newBrowserBlockStore } from '@watchfire/pages/storage'

const cid = parseCid('${CID}')
const after = (milliseconds, callback) => {
  const timer = setTimeout(callback, milliseconds)
  return () => clearTimeout(timer)
}
const store = newBrowserBlockStore(cid, 1 << 20, after)
store.put(cid, new TextEncoder().encode('hello world'))
const frame = document.body.appendChild(document.createElement('iframe'))
const shows = () => {
  try {
    showStill(frame, '<h1>Words</h1>')
    return true
  } catch {
    return false
  }
}
globalThis.tried = store.flush().then((writes) => ({
  writes,
  shows: shows(),
  isElement: document.createElement('watch-fire') instanceof WatchFire,
  isStyled: getComputedStyle(document.body.appendChild(document.createElement('watch-fire'))).display,
}))
`
const HTML =
  '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body><script type="module" src="./main.js"></script></body>'
const FILES = { 'main.js': PROGRAM, 'index.html': HTML }
const WORKS = { writes: true, shows: true, isElement: true, isStyled: 'block' }

before(buildPackages)

/** Serves a folder, with the page above where the bundler made none, and never answers a socket. Returns the port. */
async function serve(t, folder, policy = '') {
  const site = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://site')
    const file = path.join(folder, pathname === '/' ? 'index.html' : path.normalize(pathname))
    const isFound = existsSync(file)
    const type = pathname === '/' ? 'text/html' : pathname.endsWith('.js') ? 'text/javascript' : 'text/plain'
    response.writeHead(isFound || pathname === '/' ? 200 : 404, {
      'content-type': type,
      ...(policy && { 'content-security-policy': policy }),
    })
    response.end(isFound ? readFileSync(file) : HTML)
  })
  const sockets = []
  site.on('upgrade', (_request, socket) => sockets.push(socket))
  const port = await listen(site)
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    return closeServer(site)
  })
  return port
}

/** Opens a site with the program, and returns what the program found. */
async function tried(t, port) {
  const visitor = await newVisitor(t, { port })
  await visitor.goTo('/')
  await visitor.tab.waitForFunction(() => 'tried' in globalThis)
  const found = await visitor.tab.evaluate(() => globalThis.tried)
  if (found.shows) await visitor.tab.frameLocator('iframe').frameLocator('iframe').getByText('Words').waitFor()
  return { found, violations: visitor.pageErrors.filter((error) => error.startsWith('policy violated')) }
}

for (const name of NAMES) {
  test(`a site that is bundled with ${name} writes in a worker and shows HTML`, async (t) => {
    const { found } = await tried(t, await serve(t, await bundle(name, newProject(FILES))))
    assert.deepEqual(found, WORKS)
  })
}

for (const version of VITES) {
  test(`a site on which its author works with Vite ${version} does too`, async (t) => {
    assert.deepEqual((await tried(t, await develop(t, version, newProject(FILES)))).found, WORKS)
  })
}

test('a site with Trusted Types and the strictest policy of the documents does too', async (t) => {
  const trusted = "require-trusted-types-for 'script'; trusted-types watchfire"
  const policy = `default-src 'none'; script-src 'self'; worker-src blob:; ${trusted}`
  const { found } = await tried(t, await serve(t, await bundle('rollup', newProject(FILES)), policy))
  assert.deepEqual(found, WORKS)
})

test('a site that allows only its own files as workers is not asked for more', async (t) => {
  const policy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; worker-src 'self'"
  const { found, violations } = await tried(t, await serve(t, await bundle('webpack', newProject(FILES)), policy))
  assert.deepEqual([found, violations], [WORKS, []])
})

test('a site that allows nothing keeps blocks in memory, and HTML is not shown as such', async (t) => {
  const policy = "default-src 'none'; script-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
  const { found } = await tried(t, await serve(t, await bundle('esbuild', newProject(FILES)), policy))
  assert.deepEqual(found, { ...WORKS, writes: false, shows: false })
})

const LIST = `
import '@watchfire/element'
const PROPS = { cid: '${CID}', server: location.origin, 'page-key': 'x'.repeat(43) }
const main = document.body.appendChild(document.createElement('main'))
`
/** Lists of two elements, whose first one moves to the end. */
const FRAMEWORKS = {
  React: `${LIST}
    import { createElement, StrictMode, useState } from 'react'
    import { flushSync } from 'react-dom'
    import { createRoot } from 'react-dom/client'
    function List() {
      const [names, setNames] = useState(['a', 'b'])
      globalThis.turn = () => flushSync(() => setNames(([first, ...rest]) => [...rest, first]))
      return names.map((name) => createElement('watch-fire', { ...PROPS, key: name, id: name }))
    }
    createRoot(main).render(createElement(StrictMode, null, createElement(List)))`,
  Vue: `${LIST}
    import { createApp, h, nextTick, ref } from 'vue'
    const names = ref(['a', 'b'])
    globalThis.turn = () => {
      names.value = [...names.value.slice(1), names.value[0]]
      return nextTick()
    }
    createApp({ render: () => names.value.map((name) => h('watch-fire', { ...PROPS, key: name, id: name })) }).mount(main)`,
}

for (const [name, program] of Object.entries(FRAMEWORKS)) {
  test(`${name} gives elements a key, and they keep their pages when their list changes`, async (t) => {
    const project = newProject({ 'main.js': program })
    const visitor = await newVisitor(t, { port: await serve(t, await bundle('esbuild', project)) })
    const sockets = []
    visitor.tab.on('websocket', (socket) => sockets.push(socket.url()))
    await visitor.goTo('/')
    const each = visitor.tab.locator('watch-fire')
    await visitor.tab.waitForFunction(() => {
      const elements = [...document.querySelectorAll('watch-fire')]
      return elements.length === 2 && elements.every((element) => Reflect.get(element, 'state') !== null)
    })
    const states = () => each.evaluateAll((all) => all.map((one) => [one.id, one.state !== null, one.getAttribute('page-key')?.length]))
    await visitor.tab.evaluate(() => globalThis.turn())
    assert.deepEqual(await states(), [
      ['b', true, 43],
      ['a', true, 43],
    ])
    assert.equal(sockets.length, 1)
  })
}

test('on a server, the packages can be imported and do nothing', () => {
  const imports = ENTRY_POINTS.map((name) => `await import('${name}')`).join('\n')
  const program = `${imports}\nconst { WatchFire } = await import('@watchfire/element')\nconsole.log(typeof WatchFire)`
  const project = newProject({ 'program.mjs': program })
  assert.equal(execFileSync(process.execPath, ['program.mjs'], { cwd: project, encoding: 'utf8' }), 'function\n')
})

for (const moduleResolution of ['node', 'nodenext', 'bundler']) {
  test(`the types of the packages serve a strict program of TypeScript 5.4, with ${moduleResolution}`, () => {
    const compiler = path.join(import.meta.dirname, 'node_modules/typescript-5.4/bin/tsc')
    assert.equal(typeErrors(moduleResolution, compiler), '')
  })
}
