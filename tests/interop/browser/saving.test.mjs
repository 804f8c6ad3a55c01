// Files and folders that are saved from a page, through the file pickers, the service worker or a zip file.

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'

import { skipWithout } from '../lib/engines/index.mjs'
import { newFolder } from '../lib/folders.mjs'
import { sha256, sha256OfFile } from '../lib/hashes.mjs'
import { run } from '../lib/program.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { blocksOf } from './bitswap-messages.mjs'
import { noise } from './fixtures.mjs'
import { newVisitor, newVisitors, startServer, WAIT_MS } from './page-driver.mjs'
import { honestHolder, joinPage } from './raw-peer.mjs'

test('a file of 70 MB is saved while it loads, through the file picker or the service worker', {
  skip: skipWithout('init-scripts') || skipInShortRun,
}, async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const content = noise(70_000_000)
  const name = 'Grüße 世界 (1).bin'
  const link = await sharer.sharePage({ files: await onDisk(t, { [name]: content }) })

  await usePrivateFolder(visitor)
  await visitor.goTo(link)
  await visitor.waitUntilComplete(60_000)
  await visitor.tab.getByRole('button', { name: `Save ${name}` }).click()
  await visitor.tab
    .getByRole('button', { name: `Save ${name}` })
    .getByText('Saved')
    .waitFor({ timeout: 60_000 })
  assert.deepEqual(await pickedFiles(visitor), { [name]: { bytes: content.length, sha256: sha256(content) } })

  // The app looks for the file picker at each click.
  await visitor.tab.evaluate(() => {
    delete globalThis.showSaveFilePicker
  })
  const saved = await visitor.saveFile(name)
  assert.equal(await sha256OfFile(saved), sha256(content))
  for (const person of [sharer, visitor]) person.assertNoPageErrors()
})

test('a save that fails says why beside its button, in a list too', { skip: skipWithout('init-scripts') }, async (t) => {
  const sharer = await newVisitor(t, await startServer(t))
  await sharer.tab.addInitScript(() => {
    URL.createObjectURL = () => {
      throw new Error('The disk is full.')
    }
  })
  for (const files of [{ 'one.bin': noise(1000) }, { 'one.bin': noise(1000), 'two.bin': noise(1000) }]) {
    await sharer.sharePage({ files: await onDisk(t, files) })
    await sharer.tab.getByRole('button', { name: 'Save one.bin' }).click()
    await sharer.tab.getByRole('alert').getByText('Could not save: The disk is full.').waitFor()
  }
})

test('a folder is saved file by file, or as one zip file', { skip: skipWithout('init-scripts') }, async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const contents = {
    'notes.md': Buffer.from('# Notes\n'),
    'Grüße 世界 🔥.txt': Buffer.from('Hallo'),
    'film.bin': noise(70_000_000),
    'con.txt': Buffer.from('a device'),
    'empty.txt': Buffer.alloc(0),
  }
  const link = await sharer.sharePage({ files: await onDisk(t, contents) })
  await usePrivateFolder(visitor)
  await visitor.goTo(`${link}#filename=trip`)
  await visitor.waitForText(`${Object.keys(contents).length} files`, 60_000)
  // The app looks for the file picker at each click. A folder has a picker of its own.
  await visitor.tab.evaluate(() => {
    delete globalThis.showSaveFilePicker
  })
  await visitor.tab.getByRole('button', { name: 'Save all in a folder' }).click()
  const [zip] = await Promise.all([
    saveAs(visitor, 'Save all as zip', 'trip.zip'),
    visitor.tab.getByText('Saved', { exact: true }).waitFor({ timeout: 60_000 }),
  ])
  const expected = Object.entries(contents).map(([name, content]) => {
    return [`trip/${name === 'con.txt' ? '_con.txt' : name}`, { bytes: content.length, sha256: sha256(content) }]
  })
  assert.deepEqual(await pickedFiles(visitor), Object.fromEntries(expected.sort()))
  for (const [name, content] of Object.entries(contents)) {
    const safe = name === 'con.txt' ? '_con.txt' : name
    const { stdout } = await run('unzip', ['-p', zip, safe], { encoding: 'buffer', maxBuffer: 1e9 })
    assert.equal(sha256(stdout), sha256(content), name)
  }
  const { stdout } = await run('python3', ['-c', 'import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).testzip())', zip])
  assert.equal(stdout.trim(), 'None')
  for (const person of [sharer, visitor]) person.assertNoPageErrors()
})

test('a save whose tab closes ends as a failed download, not as a short file', { skip: skipWithout('init-scripts') }, async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(noise(80_000_000))
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.tab.addInitScript(() => {
    delete globalThis.showSaveFilePicker
  })
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  await visitor.waitUntilComplete(60_000)
  // Reads never end, as with a very slow disk.
  await visitor.tab.evaluate(() => {
    const read = Blob.prototype.arrayBuffer
    let reads = 0
    Blob.prototype.arrayBuffer = function () {
      reads += 1
      return reads > 8 ? new Promise(() => {}) : read.call(this)
    }
  })
  const coming = visitor.tab.waitForEvent('download')
  await visitor.tab.getByRole('button', { name: 'Save film.bin' }).click()
  const download = await coming
  await visitor.goTo('/')
  assert.notEqual(await download.failure(), null)
})

/** Writes files to a folder, because they are too large to pass to a browser directly. */
async function onDisk(t, contents) {
  const folder = newFolder(t)
  const names = Object.keys(contents)
  await Promise.all(names.map((name) => writeFile(path.join(folder, name), contents[name])))
  return names.map((name) => path.join(folder, name))
}

/** Makes the visitor's file pickers return a folder of the origin's private file system, without asking. */
function usePrivateFolder({ tab }) {
  return tab.addInitScript(() => {
    const picked = async () => (await navigator.storage.getDirectory()).getDirectoryHandle('picked', { create: true })
    globalThis.showSaveFilePicker = async ({ suggestedName }) => (await picked()).getFileHandle(suggestedName, { create: true })
    globalThis.showDirectoryPicker = picked
  })
}

/** The files written there, by path. */
function pickedFiles({ tab }) {
  return tab.evaluate(async () => {
    const found = {}
    const look = async (folder, path) => {
      for await (const [name, handle] of folder.entries()) {
        if (handle.kind === 'directory') await look(handle, `${path}${name}/`)
        else {
          const bytes = await (await handle.getFile()).arrayBuffer()
          const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
          found[path + name] = { bytes: bytes.byteLength, sha256: [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('') }
        }
      }
    }
    await look(await (await navigator.storage.getDirectory()).getDirectoryHandle('picked'), '')
    return Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}

async function saveAs({ tab }, button, name) {
  const saved = tab.waitForEvent('download', { timeout: WAIT_MS })
  await tab.getByRole('button', { name: button }).click()
  const download = await saved
  assert.equal(download.suggestedFilename(), name)
  return download.path()
}
