// DOMPurify's published attack vectors, against the sanitiser of Markdown and the frames of HTML: nothing runs, nothing leaves.
//
// A vector that runs calls `alert`. Here the call reports to the top window instead, which hears it from every frame. The
// vectors' addresses name a leak detector. VECTORS chooses every n-th vector.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { test } from 'node:test'

import { file } from '../browser/fixtures.mjs'
import { startLeakDetector } from '../browser/leak-detector.mjs'
import { newVisitor, newVisitors, startServer } from '../browser/page-driver.mjs'
import { engineOfTests } from '../lib/engines/index.mjs'
import { closeServer, listen } from '../lib/listen.mjs'

const EVERY = Number(process.env.VECTORS ?? 1)
/** The fixtures of the last version whose package has them. */
const published = createRequire(import.meta.url)('dompurify-vectors/test/fixtures/expect.js').map(({ payload }) => payload)
/** Names that hide the members of a document or a form with which a policy is added, or nodes are read. */
const ours = [
  '<img name=head><img name=documentElement><img name=querySelectorAll><img src=//outside.example/a>',
  '<form id=f><input name=childNodes><input name=attributes><input name=removeAttribute><img src=//outside.example/b></form>',
]
const vectors = [...published, ...ours].map((payload, index) => ({ payload, name: `vector ${index + 1}` }))

const chosen = vectors.filter((_, index) => index % EVERY === 0)

const STILL = 'iframe[title="The page, without its scripts"]'
const SCRIPTED = 'iframe[title="The page, with its scripts"]'
/** Markup that our sanitiser never makes. */
const FORBIDDEN = 'script, style, iframe, object, embed, form, input, svg, math, base, meta, link, [style], [srcset], [id], [name]'
const RAN = 'ran'
/** With these, a file is binary and is not shown at all. */
const CONTROLS = /\p{Cc}(?<![\t\n\r])/gu
const CONTROL_MS = 30_000
/** Vectors that an engine of today runs without a click; most need an engine of long ago. */
const RUNNING_MIN = 3
const skip = engineOfTests.whyMissing() ?? false

/** A vector that reports when it runs, and whose addresses are those of the leak detector. */
function armed(payload, { url }) {
  const host = url.replace('http:', '')
  return payload
    .replaceAll(CONTROLS, '')
    .replaceAll(/\b(?:alert|confirm|prompt)(?=\s*\()/g, `(top.postMessage(\`${RAN}\`,\`*\`),isNaN)`)
    .replaceAll(/https?:\/\/[\w.-]+/g, url)
    .replaceAll(/(?<=["'(=\s])\/\/[\w-]+(?:\.[\w-]+)+/g, host)
}

test('without protection, some vectors run', { skip }, async (t) => {
  const leakDetector = await startLeakDetector(t)
  // Vectors that hide the call from `armed` call these.
  const calls = `<script>alert = confirm = prompt = () => top.postMessage('${RAN}', '*')</script>`
  const documents = vectors.map(({ payload }) => calls + armed(payload, leakDetector))
  const http = createServer((_, response) => {
    response.setHeader('content-type', 'text/html')
    response.end('<!doctype html><title>Control</title>')
  })
  const port = await listen(http)
  t.after(() => closeServer(http))
  const visitor = await newVisitor(t, await startServer(t))
  await visitor.goTo(`http://127.0.0.1:${port}/`)
  const ran = await visitor.tab.evaluate(runUnprotected, { documents, RAN, CONTROL_MS })
  t.diagnostic(`${ran} of ${vectors.length} vectors run in ${engineOfTests.title} without protection`)
  assert(ran >= RUNNING_MIN, `only ${ran} vectors run: the test would not notice one that does`)
})

test('no vector runs and nothing leaves', { skip }, async (t) => {
  const leakDetector = await startLeakDetector(t)
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  // Under this host name the server has no site origins, and each document is sealed in a frame of its own.
  const link = (await sharer.sharePage({ files: filesOf(leakDetector) })).replace('localhost', '127.0.0.1')
  await visitor.goTo(link)
  await visitor.waitForText('all.html')
  // The app stays in its document from here on.
  await visitor.tab.evaluate((RAN) => {
    Object.assign(window, { heard: [] })
    addEventListener('message', ({ data }) => data === RAN && window['heard'].push(location.hash))
  }, RAN)

  await t.test('in the Markdown that the app renders', () =>
    eachVector(visitor, link, 'md', async (name) => {
      const prose = visitor.tab.locator('.prose')
      await prose.getByText(`${name}:`).first().waitFor()
      assert.equal(await prose.first().evaluate(forbiddenIn, FORBIDDEN), '', `what is left of ${name}`)
    }),
  )
  await t.test('in HTML whose scripts do not run', () =>
    eachVector(visitor, link, 'html', async (name) => {
      const page = visitor.tab.frameLocator(STILL).frameLocator('iframe')
      await page.getByText(`${name}:`).first().waitFor()
    }),
  )
  assert.deepEqual(await visitor.tab.evaluate(() => window['heard']), [])

  await assertNothingLeft(t, visitor, leakDetector)
})

test('nothing leaves HTML whose scripts run', { skip }, async (t) => {
  const leakDetector = await startLeakDetector(t)
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const link = (await sharer.sharePage({ files: filesOf(leakDetector) })).replace('localhost', '127.0.0.1')
  await visitor.goTo(`${link}#file=all.html`)
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  await visitor.tab.frameLocator(SCRIPTED).getByText('all vectors:').first().waitFor()
  assert.match(new URL(await visitor.tab.url()).pathname, /^\/p\//, 'the app was moved')
  await assertNothingLeft(t, visitor, leakDetector)
})

/** Asserts that nothing reached the detector, after a request of the same browser has reached another one. */
async function assertNothingLeft(t, visitor, leakDetector) {
  const last = await startLeakDetector(t)
  await visitor.goTo(`${last.url}/last`)
  await last.called('/last')
  assert.deepEqual(leakDetector.requests, [])
  assert.equal(leakDetector.connections, 0, 'a connection was made, without a request')
}

/** A folder with each vector as Markdown and as HTML, and with all of them in one document. */
function filesOf(leakDetector) {
  const each = chosen.flatMap(({ name, payload }) => {
    const attack = armed(payload, leakDetector)
    return [file(`${name}.md`, `${name}:\n\n${attack}\n`, 'text/markdown'), file(`${name}.html`, `<p>${name}:</p>${attack}`, 'text/html')]
  })
  const all = vectors.map(({ payload }) => `<div>${armed(payload, leakDetector)}</div>`).join('\n')
  return [...each, file('all.html', `<p>all vectors:</p>${all}`, 'text/html')]
}

async function eachVector(visitor, link, extension, check) {
  for (const { name } of chosen) {
    await visitor.goTo(`${link}#file=${encodeURIComponent(`${name}.${extension}`)}`)
    await check(name)
  }
}

/** Markup that must not be there, as text. Runs in the page. */
function forbiddenIn(prose, forbidden) {
  const isHarmless = (each) => each.matches('span.task')
  const bad = [...prose.querySelectorAll('*')].filter((each) => {
    const attributes = [...each.attributes]
    return (
      (each.matches(forbidden) && !isHarmless(each)) ||
      attributes.some(
        ({ name, value }) =>
          /^on/i.test(name) || /^\s*(?:javascript|vbscript):/i.test(value) || (name === 'href' && /^\s*data:/i.test(value)),
      )
    )
  })
  return bad.map(({ outerHTML }) => outerHTML).join('\n')
}

/** Puts each document into a frame that runs all, but does not move this window; returns how many report. Runs in the page. */
async function runUnprotected({ documents, RAN, CONTROL_MS }) {
  const frames = documents.map((markup) => {
    const frame = document.createElement('iframe')
    frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms')
    frame.srcdoc = markup
    return frame
  })
  const ran = new Set()
  addEventListener('message', ({ data, source }) => data === RAN && ran.add(source))
  document.body.append(...frames)
  await Promise.all(
    frames.map(
      (frame) =>
        new Promise((resolve) => {
          frame.addEventListener('load', resolve)
          setTimeout(resolve, CONTROL_MS)
        }),
    ),
  )
  // A message of this window comes after those that the frames have sent.
  await new Promise((resolve) => {
    addEventListener('message', ({ source }) => source === window && resolve(undefined))
    postMessage('end', '*')
  })
  return ran.size
}
