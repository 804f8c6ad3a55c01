// The page of a mirror in a real browser, in front of a real registry.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, test } from 'node:test'

import { checkAccessibility, describeResult } from '../lib/accessibility.mjs'
import { collectPageErrors, launch } from '../lib/chromium.mjs'
import { Fleet, pullImage } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'

const MIB = 1 << 20

const folder = newFolder()
let browser, registry, faulty, fleet
before(async () => {
  browser = await launch()
  registry = await Registry.start(path.join(folder, 'registry'))
  faulty = await FaultyRegistry.start(registry)
  fleet = await Fleet.start(path.join(folder, 'fleet'), 2, ['--upstream', faulty.url])
})
after(async () => {
  await fleet?.stop()
  await faulty?.stop()
  await registry?.stop()
  await browser?.close()
})

async function open(t, options = {}) {
  const context = await browser.newContext(options)
  t.after(() => context.close())
  const pageErrors = await collectPageErrors(context)
  const tab = await context.newPage()
  await tab.goto(fleet.hosts[0].mirror.http('/').replace('localhost', '127.0.0.1'))
  await tab.getByText('Live').waitFor()
  return { tab, pageErrors }
}

test('the page shows a download while it runs, and then the image and the sources of answers', async (t) => {
  const { tab, pageErrors } = await open(t)
  const image = makeImage([3 * MIB])
  await push(registry, 'team/app', 'v1', image)
  const layer = image.blobs.find((blob) => blob.length > MIB)
  let release
  const released = new Promise((resolve) => (release = resolve))
  // The registry keeps the second half of the layer.
  faulty.answer = (request, response) => {
    if (request.method !== 'GET' || !request.url.includes(digestOf(layer))) return false
    const [, from, to] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? []
    const [first, last] = from === undefined ? [0, layer.length - 1] : [Number(from), Number(to)]
    const range = from === undefined ? {} : { 'content-range': `bytes ${first}-${last}/${layer.length}` }
    response.writeHead(from === undefined ? 200 : 206, { 'content-length': last - first + 1, 'accept-ranges': 'bytes', ...range })
    const middle = first + Math.floor((last - first) / 2)
    response.write(layer.subarray(first, middle))
    released.then(() => response.end(layer.subarray(middle, last + 1)))
    return true
  }
  const pulled = pullImage(fleet.hosts[0].mirror.port, 'team/app', 'v1', image)
  const download = tab.locator('#downloads li', { hasText: digestOf(layer) })
  await download.getByText(/ of 3 MiB after \d+ s; .* from the registry, /).waitFor()
  assert.equal(await download.getByRole('meter').count(), 1)
  release()
  faulty.answer = () => false
  await pulled
  await tab.getByRole('row', { name: /team\/app:v1 sha256:/ }).waitFor()
  await tab.getByText('None.').waitFor()
  await pullImage(fleet.hosts[0].mirror.port, 'team/app', 'v1', image)
  await tab.getByRole('row', { name: /^Blobs [1-9]\d* \d+ \d+ 0 [1-9]\d* %$/ }).waitFor()
  await tab.getByText('1 known, 1 connected').waitFor()
  assert.deepEqual(pageErrors, [])
})

for (const [name, options] of Object.entries({
  'in the light theme': { colorScheme: 'light' },
  'in the dark theme': { colorScheme: 'dark' },
  'at a width of 360 pixels': { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
})) {
  test(`the page breaks no accessibility rule and does not scroll sideways ${name}`, async (t) => {
    const { tab, pageErrors } = await open(t, options)
    await tab.getByRole('row', { name: /team\/app:v1/ }).waitFor()
    const { violations, passes } = await checkAccessibility(tab)
    assert(passes.length > 10)
    assert.deepEqual(violations.map(describeResult), [])
    assert.equal(await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0)
    assert.deepEqual(pageErrors, [])
    if (process.env.SCREENSHOTS)
      await tab.screenshot({ path: path.join(process.env.SCREENSHOTS, `mirror-${name.replaceAll(' ', '-')}.png`), fullPage: true })
  })
}
