// The operator's page in a real browser: what it shows of clients, and what clients cannot do to it.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'

import { startServer } from '../browser/page-driver.mjs'
import { checkAccessibility, describeResult } from '../lib/accessibility.mjs'
import { collectPageErrors, launch } from '../lib/chromium.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { ROOMS, binary } from '../lib/server.mjs'
import { connect, freshTopic, variantsWhere } from '../lib/test-client.mjs'

const TABS = ['Home', 'Live', 'Connections', 'Topics', 'Pages and blocks', 'Cluster', 'Runtime', 'Events']
const TOKEN = 'a token of the operator, long enough'.replaceAll(' ', '-')
const NARROW = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }

const WEBSOCKET = variantsWhere(({ isPoll }) => !isPoll).at(-1)

/** Runs a script where HTML is interpreted; reorders text and holds control characters where it is not made visible. */
const HOSTILE = 'rooms:<img src=x onerror="document.title=\'owned\'">\u202e\u0007</bdi></table>'
const HOSTILE_SHOWN = 'rooms:<img src=x onerror="document.title=\'owned\'">[U+202E]\u2407</bdi></table>'

/** Nothing listens at the address. */
const NEIGHBOUR = { 'neighbours.servers': '["http://127.0.0.1:1"]' }

const NO_CHANGES = /Set admin\.token to allow changes/

let browser
before(async () => (browser = await launch()))
after(() => browser.close())

/** Opens a URL of the operator's listener in a tab with a profile of its own. */
async function open(t, url, options = {}) {
  const context = await browser.newContext(options)
  t.after(() => context.close())
  const pageErrors = await collectPageErrors(context)
  const tab = await context.newPage()
  await tab.goto(url)
  return { tab, pageErrors }
}

async function enterToken(tab, token = TOKEN) {
  await tab.getByLabel('Token').fill(token)
  await tab.getByRole('button', { name: 'Open' }).click()
}

const openRow = (tab, name) => tab.getByRole('row', { name }).getByRole('button').click()

/** Opens the details of the connection that has joined a topic. */
async function openConnection(t, server, topic, { needsToken = true } = {}) {
  const { tab } = await open(t, await server.admin(`/#connections?topic=${encodeURIComponent(topic)}`))
  if (needsToken) await enterToken(tab)
  await openRow(tab, new RegExp(topic))
  return tab
}

const show = (tab, name) => tab.getByRole('tab', { name }).click()

/** The text of a chart for a screen reader, which has its values. */
const chart = (tab, text) => tab.getByRole('img', { name: text }).first()

test('the charts show clients that joined, with their highest value', async (t) => {
  const server = await startServer(t, { settings: ROOMS })
  const { tab, pageErrors } = await open(t, await server.admin('/'))
  await tab.getByRole('heading', { name: /^(No trouble|\d+ troubles?)$/ }).waitFor()
  const clients = [1, 2, 3].map(() => connect(t, server, WEBSOCKET))
  for (const client of clients) await client.join(freshTopic())

  await show(tab, 'Live')
  await chart(tab, /^Connections, last 15 minutes.* WebSocket: now 3, lowest \d+, highest 3\./).waitFor()
  await chart(tab, /^Channels and topics, .*Channels: now 3,/).waitFor()
  await tab.getByText('24 hours').click()
  assert.equal(await tab.evaluate(() => location.hash), '#live?range=24h')
  assert.deepEqual(pageErrors, [])
})

test('a topic whose name is HTML is shown as text', async (t) => {
  const server = await startServer(t, { settings: ROOMS })
  await connect(t, server, WEBSOCKET).join(HOSTILE)
  const { tab, pageErrors } = await open(t, await server.admin('/#topics'))
  await tab.getByRole('button', { name: HOSTILE_SHOWN }).click()
  await tab.getByRole('dialog').getByText(HOSTILE_SHOWN).waitFor()

  await tab.getByRole('button', { name: 'Show its connections' }).click()
  await openRow(tab, /rooms:<img/)
  await tab.getByRole('dialog').getByText(HOSTILE_SHOWN).waitFor()
  assert.equal(await tab.locator('img').count(), 0)
  assert.doesNotMatch(await tab.title(), /owned/)
  assert.deepEqual(pageErrors, [])
})

test('the operator disconnects one client, after a confirmation', async (t) => {
  const server = await startServer(t, { settings: { ...ROOMS, 'admin.token': TOKEN } })
  const [client, other] = [connect(t, server, WEBSOCKET), connect(t, server, WEBSOCKET)]
  const topic = freshTopic()
  await client.join(topic)
  await other.join(freshTopic())
  const tab = await openConnection(t, server, topic)
  await tab.getByRole('button', { name: 'Disconnect', exact: true }).click()
  assert.equal(client.closed.all.length, 0)

  await tab.getByRole('button', { name: 'Disconnect now' }).click()
  await client.closed.next(() => true, 'the socket of the client is closed')
  await tab.getByText('The server has closed this connection.').waitFor()
  assert.equal(other.closed.all.length, 0)
})

test('the operator ends a topic and a process, after a confirmation, and sees the memory by kind', async (t) => {
  const server = await startServer(t, { processes: 2, settings: { ...ROOMS, 'admin.token': TOKEN } })
  const client = connect(t, server, WEBSOCKET)
  const topic = freshTopic()
  await client.join(topic)
  const { tab } = await open(t, await server.admin('/#topics?order=messages'))
  await enterToken(tab)
  await openRow(tab, new RegExp(topic))
  await tab.getByRole('button', { name: 'End topic', exact: true }).click()
  await tab.getByRole('button', { name: 'End topic now' }).click()
  await tab.getByText('The server has closed 1 channel.').waitFor()
  await tab.getByRole('button', { name: 'Close' }).click()
  await tab.getByText('No topic matches.').waitFor()

  await show(tab, 'Runtime')
  const row = (table, name) => tab.getByRole('table', { name: table }).getByRole('row', { name }).waitFor()
  await row('Memory', /^program [\d.]+ MiB$/)
  await row('Queues', /^event loop 0\/0 0 0 ms 0$/)
  await tab.getByRole('button', { name: 'End process 1', exact: true }).click()
  await tab.getByRole('button', { name: 'End process 1 now' }).click()
  await tab.getByText('The process ends, and is started again.').waitFor()
  await show(tab, 'Events')
  await tab.getByRole('row', { name: /The operator ended process 1 of / }).waitFor()
  await tab.getByRole('row', { name: /Process 1 serves again/ }).waitFor()
  assert.match(server.stderr, /the operator ended a topic .*by=127\.0\.0\.1:\d+/)
})

test('the operator watches the messages of one client, and its payloads only when asked', async (t) => {
  const server = await startServer(t, { settings: { ...ROOMS, 'admin.token': TOKEN } })
  const client = connect(t, server, WEBSOCKET)
  const topic = freshTopic()
  const channel = await client.join(topic)
  const tab = await openConnection(t, server, topic)
  const dialog = tab.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Watch messages' }).click()
  await dialog.getByText(/^Watched since /).waitFor()
  channel.push('new_msg', { body: '<b>secret</b>' })
  await dialog.getByRole('row', { name: /from client new_msg/ }).waitFor()
  await dialog.getByRole('row', { name: /to client new_msg/ }).waitFor()
  // biome-ignore lint/performance/useDomNodeTextContent: only what a person sees matters here
  assert.doesNotMatch(await dialog.innerText(), /secret/)

  await dialog.getByLabel('Show payloads').check()
  await waitUntil(() => server.stderr.includes('the operator reads the payloads of a connection'), 'the log says so')
  channel.push('new_msg', { body: '<b>second</b>' })
  await dialog.getByRole('row', { name: /from client new_msg .*<b>second<\/b>/ }).waitFor()
  assert.equal(await dialog.locator('td b').count(), 0)
})

test('the operator denies an address and allows it again', async (t) => {
  const server = await startServer(t, { settings: { ...ROOMS, 'admin.token': TOKEN } })
  const client = connect(t, server, WEBSOCKET)
  const topic = freshTopic()
  await client.join(topic)
  const tab = await openConnection(t, server, topic)
  await tab.getByRole('button', { name: 'Deny address' }).click()
  await tab.getByRole('button', { name: 'Deny address now' }).click()
  await client.closed.next(() => true, 'the socket of the client is closed')
  await tab.getByText(/^The server denies this address for an hour, and has closed \d+ connections?\.$/).waitFor()
  const status = async () => (await fetch(`http://127.0.0.1:${server.port}/healthz`)).status
  assert.equal(await status(), 403)

  await tab.getByRole('button', { name: 'Close' }).click()
  await tab.getByRole('button', { name: 'Allow 127.0.0.1' }).click()
  await waitUntil(async () => (await status()) === 200, 'the address is allowed')
})

test('the operator changes the level of the log, and asks for a flame graph', async (t) => {
  const server = await startServer(t, { settings: { ...ROOMS, 'admin.token': TOKEN } })
  const { tab } = await open(t, await server.admin('/#runtime'))
  await enterToken(tab)
  await tab.getByLabel('Level of the log').selectOption('debug')
  await tab.getByRole('button', { name: 'Apply' }).click()
  await tab.getByText('The level is debug in 1 process, until they end.').waitFor()
  await waitUntil(() => server.stderr.includes('the operator changed the level of the log'), 'the log says so')
  await tab.getByRole('button', { name: 'Record 10 s' }).click()
  // A program without the feature says which one it needs; the profiles have tests of their own.
  await tab.getByText(/^(Cannot record: .* feature "?profiles.*|Save the flame graph of process 0 .*)$/).waitFor()
})

test('without a token, what changes something is disabled and says how to allow changes', async (t) => {
  const server = await startServer(t, { settings: ROOMS })
  const topic = freshTopic()
  await connect(t, server, WEBSOCKET).join(topic)
  const tab = await openConnection(t, server, topic, { needsToken: false })
  await tab.getByRole('button', { name: 'Watch messages' }).click()
  const isDisabled = async (control) => {
    assert.ok(await control.isDisabled(), `${control} is disabled`)
    assert.match(await control.getAttribute('title'), NO_CHANGES)
  }
  for (const name of ['Disconnect', 'Deny address']) await isDisabled(tab.getByRole('button', { name, exact: true }))
  await isDisabled(tab.getByLabel('Show payloads'))
  assert.equal(await tab.getByRole('dialog').getByText(NO_CHANGES).count(), 2)
  const { violations } = await checkAccessibility(tab)
  assert.deepEqual(violations.map(describeResult), [])

  await tab.getByRole('button', { name: 'Close' }).click()
  await show(tab, 'Topics')
  await openRow(tab, new RegExp(topic))
  await isDisabled(tab.getByRole('button', { name: 'End topic' }))
  await tab.getByRole('button', { name: 'Close' }).click()
  await show(tab, 'Runtime')
  await isDisabled(tab.getByRole('button', { name: 'Apply' }))
  await tab.getByRole('tabpanel').getByText(NO_CHANGES).last().waitFor()
})

test('dragging the mouse over a chart shows the span in all charts and in the address, until Escape or a double click', async (t) => {
  const server = await startServer(t, { settings: ROOMS })
  await connect(t, server, WEBSOCKET).join(freshTopic())
  const { tab, pageErrors } = await open(t, await server.admin('/#live?range=24h'))
  await tab.getByText('15 minutes', { exact: true }).click()
  const plot = chart(tab, /^Connections, last 15 minutes.*highest 1\./)
  const recorded = async () => (await (await fetch(await server.admin('/admin/history'))).json()).rows
  await waitUntil(async () => (await recorded()).length > 15, 'the record has fifteen seconds', 30_000)
  const address = () => tab.evaluate(() => location.hash)
  /** The axis has a minute; the record begins near its right edge. */
  const drag = async (end = () => tab.mouse.up()) => {
    const { x, y, width, height } = await plot.boundingBox()
    await tab.mouse.move(x + width - 12, y + height / 2)
    await tab.mouse.down()
    await tab.mouse.move(x + width / 2, y + height / 2, { steps: 4 })
    await end()
  }
  await drag()
  assert.match(await address(), /^#live\?at=\d{13}&span=\d{4,5}$/)
  const spanned = /^(Connections|CPU), \d\d:\d\d:\d\d to \d\d:\d\d:\d\d\. /
  await waitUntil(async () => (await tab.getByRole('img', { name: spanned }).count()) === 2, 'both charts show the span')
  await tab.reload()
  await chart(tab, spanned).waitFor()

  await chart(tab, spanned).dblclick()
  await plot.waitFor()
  assert.equal(await address(), '#live')
  await drag(async () => {
    await tab.keyboard.press('Escape')
    await tab.mouse.up()
  })
  assert.equal(await address(), '#live')
  await drag()
  await chart(tab, spanned).waitFor()
  await tab.keyboard.press('Escape')
  await plot.waitFor()
  assert.equal(await address(), '#live')
  assert.deepEqual(pageErrors, [])
})

test('a click on the head of a column sorts any table, and so does the keyboard', async (t) => {
  const server = await startServer(t, { processes: 3 })
  const { tab } = await open(t, await server.admin('/#cluster'))
  const table = tab.getByRole('table', { name: 'Processes of this machine' })
  const processes = () => table.getByRole('rowheader').allTextContents()
  const order = (name) => table.getByRole('columnheader', { name }).getAttribute('aria-sort')
  await waitUntil(async () => (await processes()).join() === '0,1,2', 'the order of the server')
  assert.equal(await order('Process'), null)
  await table.getByRole('button', { name: 'Process' }).click()
  assert.deepEqual([await order('Process'), await order('Queued'), await processes()], ['ascending', 'none', ['0', '1', '2']])
  await tab.keyboard.press('Enter')
  assert.deepEqual([await order('Process'), await processes()], ['descending', ['2', '1', '0']])
  await table.getByRole('button', { name: 'Queued' }).click()
  assert.deepEqual([await order('Queued'), await order('Process')], ['descending', 'none'])
  await show(tab, 'Events')
  await tab.getByRole('button', { name: 'Time' }).click()
  await tab.getByRole('columnheader', { name: 'Time' }).and(tab.locator('[aria-sort=ascending]')).waitFor()
})

test('the pages that are open are a list with their subscribers', async (t) => {
  const server = await startServer(t, { settings: ROOMS })
  const page = 'page:bafkreieq5jui4j25lacwomsqgjeswwl3y5zcdrresptwgmfylxo2depppq'
  for (const topic of [page, freshTopic()]) await connect(t, server, WEBSOCKET).join(topic, { have: 'none' })
  const { tab } = await open(t, await server.admin('/#pages'))
  await tab.getByRole('button', { name: 'List the open pages' }).click()
  await tab.getByRole('row', { name: new RegExp(`^${page} 1 `) }).waitFor()
  assert.equal(await tab.getByRole('table', { name: 'Topics' }).getByRole('rowheader').count(), 1)
  assert.equal(await tab.evaluate(() => location.hash), '#topics?prefix=page%3A')
})

test('the limits keep their places while their use changes', async (t) => {
  const server = await startServer(t)
  const { tab } = await open(t, await server.admin('/'))
  const section = tab.locator('.limits')
  await section.getByRole('meter').first().waitFor()
  const { limits } = await (await fetch(await server.admin('/admin/state'))).json()
  const shown = await section.getByRole('meter').evaluateAll((meters) => meters.map((meter) => meter.ariaLabel.toLowerCase()))
  assert.deepEqual(
    shown,
    limits.map(({ name }) => name),
  )
  const shares = limits.map(({ used, max }) => used / max)
  assert.notDeepEqual(shares, shares.toSorted().toReversed(), 'it is not the order of their use')
})

test('where the listener needs a token, the page asks for it and keeps it for the tab', async (t) => {
  const server = await startServer(t, { settings: { 'admin.listen': '0.0.0.0:0', 'admin.token': TOKEN } })
  const port = await waitUntil(
    () => server.lines.map((line) => /http:\/\/0\.0\.0\.0:(\d+)/.exec(line)?.[1]).find(Boolean),
    'the server prints the address of its metrics',
  )
  const { tab } = await open(t, `http://127.0.0.1:${port}/`)
  await enterToken(tab, 'not-the-token')
  await tab.getByText('The server rejected this token.').waitFor()
  assert.equal(await tab.getByRole('tab').first().isVisible(), false)

  await enterToken(tab)
  await tab.getByRole('tab', { name: 'Home' }).waitFor()
  await tab.reload()
  await tab.getByRole('tab', { name: 'Home' }).waitFor()
  await tab.getByRole('button', { name: 'Forget the token' }).click()
  await tab.getByLabel('Token').waitFor()
})

test('the arrow keys change the tab, and a link opens the same view', async (t) => {
  const server = await startServer(t)
  const { tab, pageErrors } = await open(t, await server.admin('/#runtime'))
  await tab.getByRole('tab', { name: 'Runtime', selected: true }).focus()
  await tab.keyboard.press('ArrowRight')
  await tab.getByRole('tab', { name: 'Events', selected: true }).waitFor()
  await tab.keyboard.press('ArrowRight')
  await tab.getByRole('tab', { name: 'Home', selected: true }).waitFor()
  assert.equal(await tab.evaluate(() => `${location.hash} ${document.activeElement.id}`), '#home tab-home')
  assert.deepEqual(pageErrors, [])
})

test('on a phone, a link shows the tab that it names', async (t) => {
  const server = await startServer(t)
  const { tab } = await open(t, await server.admin('/#events'), NARROW)
  const chosen = tab.getByRole('tab', { name: 'Events', selected: true })
  await waitUntil(async () => {
    const box = await chosen.boundingBox()
    return box !== null && box.x >= 0 && box.x + box.width <= NARROW.viewport.width
  }, 'the tab is on the screen')
})

test('the page says when the server stops answering, and keeps its charts', async (t) => {
  const server = await startServer(t, { settings: ROOMS })
  await connect(t, server, WEBSOCKET).join(freshTopic())
  const { tab } = await open(t, await server.admin('/#live'))
  await chart(tab, /^Connections, .*WebSocket: now 1,/).waitFor()
  server.kill()
  await tab.getByText('The server does not answer').waitFor()
  assert.ok(await chart(tab, /^Connections, .*highest 1\./).isVisible())
})

test('each neighbour of the settings has a row in a table, and all other servers have one', async (t) => {
  const server = await startServer(t, { settings: NEIGHBOUR })
  const { tab, pageErrors } = await open(t, await server.admin('/#pages'))
  const table = tab.getByRole('table', { name: 'Neighbours' })
  await table.getByRole('row', { name: 'http://127.0.0.1:1 silent 0 0 0 B 0 B 0 B' }).waitFor()
  await table.getByRole('row', { name: 'other – 0 0 0 B 0 B 0 B' }).waitFor()
  assert.deepEqual(pageErrors, [])
})

test('page loads are in the chart of people, and watchfire report draws the rows that the page saves', async (t) => {
  const server = await startServer(t)
  const { tab, pageErrors } = await open(t, await server.admin('/#live'))
  await chart(tab, /^People, memory and CPU, .*Connected: now 0,/).waitFor()
  for (let n = 0; n < 5; n++) assert.ok((await fetch(server.http('/'))).ok)
  await chart(tab, /^People, memory and CPU, .*Page loads: .*highest [1-9][\d.]*\/s\. Memory: now [\d.]+ MiB,/).waitFor()
  const saved = tab.waitForEvent('download')
  await tab.getByRole('button', { name: 'Save the rows as CSV' }).click()
  const page = execFileSync(binary('watchfire'), ['report', await (await saved).path(), '--output', '-'])
  assert.match(String(page), /Page loads a minute/)
  assert.deepEqual(pageErrors, [])
})

for (const [name, options] of [
  ['in the light theme', { colorScheme: 'light' }],
  ['in the dark theme', { colorScheme: 'dark' }],
  ['at a width of 360 pixels', NARROW],
]) {
  test(`no view breaks an accessibility rule or scrolls sideways ${name}`, async (t) => {
    const server = await startServer(t, { settings: { ...ROOMS, ...NEIGHBOUR, 'admin.token': TOKEN } })
    await connect(t, server, WEBSOCKET).join(HOSTILE)
    const { tab, pageErrors } = await open(t, await server.admin('/'), options)
    await enterToken(tab)
    const broken = []
    const check = async (where) => {
      const { violations, passes } = await checkAccessibility(tab)
      assert(passes.length > 10, `only ${passes.length} rules apply to ${where}`)
      broken.push(...violations.map((each) => `${where}: ${describeResult(each)}`))
      const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      if (overflow > 0) broken.push(`${where}: ${overflow} pixels wider than the window`)
    }
    await chart(tab, /^Connections, /).waitFor()
    for (const view of TABS) {
      await show(tab, view)
      await check(view)
    }
    await show(tab, 'Connections')
    await openRow(tab, /rooms:<img/)
    await tab.getByRole('dialog').getByText(HOSTILE_SHOWN).waitFor()
    await tab.getByRole('button', { name: 'Watch messages' }).click()
    await tab.getByText(/^Watched since /).waitFor()
    await tab.getByRole('button', { name: 'Disconnect', exact: true }).click()
    await check('a connection')
    assert.deepEqual(broken, [])
    // The page learns that it needs the token from a 401.
    assert.deepEqual(
      pageErrors.filter((error) => !error.includes('401')),
      [],
    )
  })
}
