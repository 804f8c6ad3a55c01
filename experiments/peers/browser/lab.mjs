// The common parts of the browsers of the lab: the contract of a program, and a Chromium with a profile of its own.
// docs/reference/experiments.md describes the contract.

import { createServer } from 'node:http'
import { statSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { DIRECT_ON_LOOPBACK, VISIBLE_ADDRESS, launchWithProfile } from '../../../tests/interop/lib/chromium.mjs'
import { variable } from '../variable.mjs'
import { profileTab } from './profile.mjs'

const ACTION_TIMEOUT_MS = 60_000
const PROGRESS_MS = 500

/** A variable that only one of the two commands gets. */
const listFor = (command, name) => (process.argv[2] === command ? JSON.parse(variable(name)) : [])
export const address = variable('LAB_ADDRESS')
const isOnLoopback = address.startsWith('127.')
/** The files that this node shares. */
export const files = listFor('seed', 'LAB_PATHS').map((file) => ({ file, bytes: statSync(file).size }))
/** The objects that this node fetches: the words of each name, as the publisher chose them. */
export const wanted = listFor('fetch', 'LAB_NAMES').map((name) => name.split(' '))
/** Bytes of all content that this node shares or fetches. */
export const contentBytes = [...files.map(({ bytes }) => bytes), ...wanted.map(([bytes]) => Number(bytes))].reduce(
  (sum, each) => sum + each,
  0,
)

/** The address of the trial's server for browsers. With several, the variable `SERVER` counts from 0. */
export function serverAddress() {
  const server = JSON.parse(variable('LAB_SERVERS'))[Number(process.env.SERVER ?? 0)]
  if (server === undefined) throw new Error('no server to open a page of: the scenario has no `serve`')
  return server.replace(/^ws/, 'http')
}

export function emit(event, fields = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`)
}

/** Tells the lab that this node can fetch, and resolves when the lab lets it begin. */
export function untilItMayFetch() {
  emit('ready')
  return new Promise((resolve) => createInterface({ input: process.stdin }).once('line', resolve))
}

/**
 * Runs one of the two commands of a program. Each resolves with a function that ends it and returns its totals.
 * @param {{ seed?: () => Promise<() => object>, fetch?: () => Promise<() => object> }} commands
 */
export async function play({ seed, fetch }) {
  try {
    const command = { seed, fetch }[process.argv[2]]
    if (command === undefined) throw new Error('this program has no such command')
    const stopped = new Promise((resolve) => process.once('SIGTERM', resolve))
    const end = await command()
    await stopped
    emit('stopped', await end())
    process.exit()
  } catch (error) {
    process.stderr.write(`cannot ${process.argv[2] ?? 'start'}: ${error.message}\n`)
    process.exit(1)
  }
}

/**
 * Starts a Chromium that may make direct connections, and opens a page. `script` runs in each tab before its page. `nextDone`
 * is a promise that the next call of `labDone` in a tab resolves. `close` ends the browser.
 * @param {string} origin
 * @param {[Function, object]} [script]
 */
export async function openTab(origin, script) {
  // On an address of a network of the lab, unlike on loopback, pages would have no WebCrypto.
  const flags = [...(isOnLoopback ? DIRECT_ON_LOOPBACK : VISIBLE_ADDRESS), `--unsafely-treat-insecure-origin-as-secure=${origin}`]
  const profile = path.join(variable('LAB_FOLDER'), 'profile')
  // The lab sends SIGTERM to learn the totals, which are in the tab.
  const context = await launchWithProfile(profile, flags, { handleSIGTERM: false, ignoreHTTPSErrors: true })
  context.setDefaultTimeout(ACTION_TIMEOUT_MS)
  // A browser uses its loopback device only with this permission. On a network it goes without, as other visitors do.
  if (isOnLoopback) await context.grantPermissions(['microphone'], { origin })
  let done = null
  await context.exposeFunction('labDone', () => done?.())
  const nextDone = () => new Promise((resolve) => (done = resolve))
  if (script !== undefined) await context.addInitScript(.../** @type {[any, object]} */ (script))
  const tab = await context.newPage()
  await tab.goto(origin)
  const writeProfile = await profileTab(context, tab)
  const close = async () => {
    await writeProfile?.()
    await context.close()
  }
  return { context, tab, nextDone, close }
}

/** Serves files by path, and answers posted JSON, at a port of this node. Resolves with its origin. */
export function serveFiles(port, byPath, answer = null) {
  const server = createServer(async (request, response) => {
    const found = byPath[request.url]
    try {
      if (request.method === 'POST' && answer !== null) {
        const parts = []
        for await (const part of request) parts.push(part)
        response.end(JSON.stringify(await answer(JSON.parse(Buffer.concat(parts).toString()))))
      } else if (found === undefined) response.writeHead(404).end()
      else response.writeHead(200, { 'content-type': found.type }).end(found.body)
    } catch (error) {
      response.writeHead(500).end(error.message)
    }
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, () => resolve(`http://${address}:${port}`))
  })
}

/** Emits progress until the tab has the object. `share` resolves with the part that it has. */
export async function emitUntilDone(bytes, done, share) {
  let isDone = false
  const finished = done.then(() => (isDone = true))
  while (!isDone) {
    const part = await Promise.race([finished, share()])
    if (!isDone) emit('progress', { bytes: Math.floor(part * bytes) })
    await Promise.race([finished, new Promise((resolve) => setTimeout(resolve, PROGRESS_MS))])
  }
  emit('progress', { bytes })
  emit('held')
}
