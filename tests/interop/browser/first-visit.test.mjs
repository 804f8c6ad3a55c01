// A first visit: people who open a link to read it, and people who write a page.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { BackgroundTab } from './background-tab.mjs'
import { file, picture } from './fixtures.mjs'
import { newVisitor, newVisitors, startServer, WAIT_MS } from './page-driver.mjs'

const PHONE = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true }
const UNAVAILABLE_PAGE = '/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m'
/** Terms of the technology, which a reader need not know. */
const GLOSSARY = /\b(nodes?|peers?|tabs? ha(?:s|ve)|held|holders?|seed|CID|blocks?|WebRTC)\b/i

const box = (person) => person.tab.getByRole('textbox', { name: 'Text of the page' })
const panel = (person) => person.tab.locator('.status-panel')

test('a reader sees the page first, and one line about it that opens on demand', async (t) => {
  const server = await startServer(t)
  const writer = await newVisitor(t, server)
  const link = await writer.sharePage({ text: '# Tea at five\n\nBring cups.' })
  for (const options of [PHONE, {}]) {
    const reader = await newVisitor(t, server, { ...options, permissions: ['clipboard-read', 'clipboard-write'] })
    await reader.goTo(link)
    await reader.waitForText('Bring cups.')
    await reader.waitForText(/^[23] people have this page$/)
    // The text brings its title; the line above it only says the name of its file.
    const name = reader.tab.locator('.file > header h1')
    assert.equal(await name.textContent(), 'tea-at-five.md')
    assert((await name.boundingBox()).height < 25, 'the name is as large as a title')
    const { height } = await panel(reader).boundingBox()
    const screen = reader.tab.viewportSize().height
    assert(height <= screen / 5, `the line takes ${height} of ${screen} pixels`)
    const words = await reader.tab.locator('#app').textContent()
    assert.doesNotMatch(words, GLOSSARY)
    assert.doesNotMatch(words, /sharing \d+ page|open in this tab/i)
    // The share button copies the link where the system has no share sheet.
    await reader.tab.getByRole('button', { name: 'Share', exact: true }).click()
    await reader.tab.getByRole('button', { name: 'Copied', exact: true }).waitFor()
    assert.equal(await reader.tab.evaluate(() => navigator.clipboard.readText()), link)
    await reader.waitForStatus(/people have all of it, including you/)
    assert.doesNotMatch(await panel(reader).textContent(), GLOSSARY)
    reader.assertNoPageErrors()
  }
})

test('a link has a title, a sentence and a picture where another service shows it', async (t) => {
  const server = await startServer(t)
  const reader = await newVisitor(t, server)
  for (const address of ['/', UNAVAILABLE_PAGE]) {
    await reader.goTo(address)
    const said = await reader.tab.evaluate(() => {
      const all = document.querySelectorAll('meta:is([property^="og:"], [name^="twitter:"])')
      return Object.fromEntries(
        [...all].map((meta) => [meta.getAttribute('property') ?? meta.getAttribute('name'), meta.getAttribute('content')]),
      )
    })
    assert.match(said['og:title'], /as long as someone has it open/)
    assert.match(said['og:description'], /gone when the last one closes/)
    assert.equal(said['twitter:card'], 'summary_large_image')
    const response = await fetch(server.http(said['og:image']))
    assert.equal(response.headers.get('content-type'), 'image/png')
    const bytes = Buffer.from(await response.arrayBuffer())
    assert(bytes.length <= 30_000, `the picture has ${bytes.length} bytes`)
    assert.deepEqual([bytes.readUInt32BE(16), bytes.readUInt32BE(20)], [said['og:image:width'], said['og:image:height']].map(Number))
  }
  const known = await newVisitor(t, await startServer(t, { settings: { 'server.public_url': 'https://fire.example' } }))
  await known.goTo(UNAVAILABLE_PAGE)
  const picture = known.tab.locator('meta[property="og:image"]')
  assert.equal(await picture.getAttribute('content'), 'https://fire.example/link.png')
})

test('the preview shows what Markdown does, and lines stay lines', async (t) => {
  const [writer, reader] = await newVisitors(t, await startServer(t), 2)
  await writer.goTo('/')
  await writer.waitForText('Only people with the whole link can read it')
  await writer.compose({ text: '**Roses** are red\nviolets are blue' })
  const preview = writer.tab.getByRole('region', { name: 'Preview' })
  await preview.locator('strong', { hasText: 'Roses' }).waitFor()
  assert.equal(await preview.locator('br').count(), 1)
  await writer.tab.getByRole('button', { name: 'Light this page and get a link' }).click()
  await reader.goTo(await writer.sharedLink())
  await reader.waitForText('violets are blue')
  assert.equal(await reader.tab.locator('.prose br').count(), 1)
})

test('the preview of HTML is the sandbox of its readers, with the files of the draft', async (t) => {
  const writer = await newVisitor(t, await startServer(t))
  await writer.goTo('/')
  await writer.compose({ files: [file('hills.png', picture(40, 30), 'image/png')] })
  await writer.tab.getByText('hills.png').waitFor()
  // The files that are there already are no part of a limit of gigabytes, and nothing has to be written beside them.
  assert.match(await writer.tab.locator('.room').textContent(), /^\d+ bytes$/)
  const low = (await box(writer).boundingBox()).height
  await writer.compose({
    as: 'HTML',
    text: '<h1>A party</h1><img src=hills.png alt=hills><script>document.body.append("it runs")</script>',
  })
  assert((await box(writer).boundingBox()).height > low)
  const preview = writer.tab.getByRole('region', { name: 'Preview' })
  const shown = preview.frameLocator('iframe').frameLocator('iframe')
  await shown.getByRole('heading', { name: 'A party' }).waitFor()
  assert.equal(await shown.getByRole('img', { name: 'hills' }).evaluate((img) => img.naturalWidth), 40)
  assert.equal(await shown.getByText('it runs').count(), 0)
  await preview.getByRole('button', { name: 'Run its scripts' }).click()
  // With scripts, it is in the outer frame.
  await preview.frameLocator('iframe').getByText('it runs').waitFor()
  await box(writer).press('End')
  await box(writer).pressSequentially('<p>More')
  await preview.frameLocator('iframe').getByText('More').waitFor()
  writer.assertNoPageErrors()
})

test('on a phone the button that lights the page stays in the window, and a tap explains a switch', async (t) => {
  const writer = await newVisitor(t, await startServer(t), PHONE)
  await writer.goTo('/')
  await writer.compose({ text: 'Just a line.' })
  await writer.tab.getByRole('region', { name: 'Preview' }).waitFor()
  await writer.tab.getByText('About “Live”').waitFor()
  const { y, height } = await writer.tab.getByRole('button', { name: 'Light this page' }).boundingBox()
  assert(y + height <= PHONE.viewport.height, `the button is at ${y}`)
  const meaning = writer.tab.getByText('Only people with the whole link can read it')
  assert(!(await meaning.isVisible()))
  await writer.tab.getByText('About “Private”').click()
  await meaning.waitFor()
})

test('a draft with its files survives a reload, and is gone once its page is made', async (t) => {
  const writer = await newVisitor(t, await startServer(t))
  await writer.goTo('/')
  await writer.compose({ text: 'Not lost.', files: [file('hills.png', picture(40, 30), 'image/png')] })
  await writer.tab.getByRole('switch', { name: 'Private' }).check()
  const files = writer.tab.getByRole('list', { name: 'Files of the page' })
  await files.getByText('hills.png').waitFor()
  const stored = () =>
    writer.tab.evaluate(async () => {
      const [known] = (await indexedDB.databases()).filter(({ name }) => name === 'watchfire-drafts')
      if (known === undefined) return 0
      const database = await new Promise((resolve) => {
        const opening = indexedDB.open('watchfire-drafts')
        opening.onsuccess = () => resolve(opening.result)
      })
      const counting = database.transaction('drafts').objectStore('drafts').count()
      const count = await new Promise((resolve) => (counting.onsuccess = () => resolve(counting.result)))
      database.close()
      return count
    })
  await waitUntil(async () => (await stored()) === 1, 'the files are stored')
  // No dialog asks: nothing would be lost.
  await writer.tab.reload()
  await files.getByText('hills.png').waitFor()
  assert.match(await box(writer).inputValue(), /Not lost\./)
  assert(await writer.tab.getByRole('switch', { name: 'Private' }).isChecked())
  // A duplicated tab has a copy, also when a day later another draft removes the files of tabs that are gone.
  const [copy] = await Promise.all([writer.tab.waitForEvent('popup'), writer.tab.evaluate(() => void window.open('/'))])
  await copy.getByRole('list', { name: 'Files of the page' }).getByText('hills.png').waitFor()
  await waitUntil(async () => (await stored()) === 2, 'both tabs have the files')
  await copy.evaluate(() => {
    const { now } = Date
    Date.now = () => now() + 25 * 3_600_000
  })
  await copy.locator('input[type=file]').setInputFiles([file('more.txt', 'more')])
  await copy.getByText('more.txt').waitFor()
  await copy.getByRole('button', { name: 'Light this page' }).click()
  await copy.waitForURL(/\/p\//)
  await waitUntil(async () => (await stored()) === 1, 'the copy is removed, and the first tab keeps its files')
  await writer.tab.reload()
  await files.getByText('hills.png').waitFor()
  await writer.tab.getByRole('button', { name: 'Light this page' }).click()
  await writer.sharedLink()
  assert.deepEqual(await writer.waitForPicture('hills'), [40, 30])
  await writer.tab.getByRole('link', { name: 'Watchfire' }).click()
  assert.equal(await box(writer).inputValue(), '')
  await waitUntil(async () => (await stored()) === 0, 'the stored files are removed')
})

test('a tab without its service worker asks to share again, and then each share is kept', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  // The server redirects here.
  await person.goTo('/#received-nothing')
  await person.waitForText('Share it once more')
  await waitUntil(() => person.tab.evaluate(() => navigator.serviceWorker.controller !== null), 'the worker is there')
  for (const text of ['first', 'second']) {
    // A browser sends a form; this one goes to the worker too.
    const isRedirected = await person.tab.evaluate(async (shared) => {
      const form = new FormData()
      form.set('text', shared)
      form.append('files', new File([shared], `${shared}.txt`))
      return (await fetch('/receive', { method: 'POST', body: form })).redirected
    }, text)
    assert(isRedirected)
  }
  await person.goTo('/#received')
  await person.tab.reload()
  await person.waitForText('second.txt')
  await person.waitForText('first.txt')
  assert.equal(await box(person).inputValue(), 'first\n\nsecond')
})

test('formatted text is pasted as Markdown', async (t) => {
  const writer = await newVisitor(t, await startServer(t))
  await writer.goTo('/')
  await writer.waitForText('Up to')
  await writer.tab.waitForLoadState('networkidle')
  await box(writer).focus()
  await box(writer).evaluate((field) => {
    const clipboardData = new DataTransfer()
    clipboardData.setData('text/html', '<h2>Tea</h2><p>At <b>five</b>.</p>')
    clipboardData.setData('text/plain', 'Tea\nAt five.')
    field.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))
  })
  assert.equal(await box(writer).inputValue(), '## Tea\n\nAt **five**.')
})

test('a page can be copied and changed', async (t) => {
  const [writer, reader] = await newVisitors(t, await startServer(t), 2)
  const link = await writer.sharePage({ text: '# Tea', files: [file('hills.png', picture(40, 30), 'image/png')] })
  await reader.goTo(link)
  await reader.waitForPicture('hills')
  await reader.openDetails()
  await reader.tab.getByRole('button', { name: 'Copy and change' }).click()
  await reader.tab.getByRole('list', { name: 'Files of the page' }).getByText('hills.png').waitFor()
  // The draft says of which page it is a copy, and has nothing of the app around that page.
  await reader.waitForText('A copy of “tea”')
  assert.equal(await reader.tab.title(), 'A copy of “tea”')
  assert.equal(await box(reader).inputValue(), '# Tea\n\n![hills](hills.png)\n')
  await box(reader).press('Control+End')
  await box(reader).pressSequentially('And cake.')
  await reader.tab.getByRole('button', { name: 'Light this page' }).click()
  assert.notEqual(await reader.sharedLink(), link)
  await reader.waitForText('And cake.')
  assert.deepEqual(await reader.waitForPicture('hills'), [40, 30])
  await reader.goTo('/')
  await reader.waitForTextGone('A copy of')
  assert.equal(await reader.tab.title(), 'Watchfire')
})

/**
 * Records what the page asks the browser to show. The browser lists only the notifications of a worker, and when the worker is not active
 * in time, as on a busy machine, the tab shows its own.
 */
const RECORD_NOTICES = `(() => {
  globalThis.notices = []
  const { showNotification } = ServiceWorkerRegistration.prototype
  ServiceWorkerRegistration.prototype.showNotification = function (title, options) {
    notices.push([title, options.data])
    return showNotification.call(this, title, options)
  }
  globalThis.Notification = class extends Notification {
    constructor(title, options) {
      super(title, options)
      notices.push([title, options.data])
    }
  }
})()`

test('nobody has the page: it says what to do, and a notification says when it is back, in a hidden tab too', async (t) => {
  const server = await startServer(t)
  const writer = await newVisitor(t, server)
  const link = await writer.sharePage({ text: 'Back again.' })
  await writer.tab.goto('about:blank')
  const reader = await newVisitor(t, server)
  const browser = reader.tab.context().browser()
  await (await browser.newBrowserCDPSession()).send('Browser.grantPermissions', { permissions: ['notifications'] })
  const hidden = await BackgroundTab.open(t, browser, link)
  await hidden.waitForText('The person who sent you the link can do that')
  // Earlier, the tab may still have its empty document, and lose the record with it.
  await hidden.evaluate(RECORD_NOTICES)
  await hidden.press('Tell me when it is back')
  await hidden.waitForText('You will get a notification')
  await hidden.hide()
  await writer.sharePage({ text: 'Back again.' })
  await waitUntil(async () => (await hidden.evaluate('notices')).length > 0, 'the notification is shown', WAIT_MS)
  const shown = await hidden.evaluate('notices')
  for (const notice of shown) assert.deepEqual(notice, ['back-again.md is back', link])
  assert.equal(await hidden.evaluate('document.visibilityState'), 'hidden')
  await hidden.waitForText('Back again.')

  await reader.goTo('/nowhere')
  await reader.tab.getByRole('textbox', { name: 'Paste the whole link' }).fill(link)
  await reader.tab.keyboard.press('Enter')
  await reader.waitForText('Back again.')
})

test('the installed app receives text and files from the share sheet, and the server gets none of it', async (t) => {
  const server = await startServer(t)
  const person = await newVisitor(t, server, PHONE)
  await person.goTo('/')
  const target = await person.tab.evaluate(async () => {
    await navigator.serviceWorker.register('/worker.js', { scope: '/' })
    await navigator.serviceWorker.ready
    return (await (await fetch('/manifest.webmanifest')).json()).share_target
  })
  const posts = []
  person.tab.context().on('request', (request) => {
    if (request.method() === 'POST' && request.serviceWorker() !== null) posts.push(request.url())
  })
  // The system sends a form, as this page of another origin does.
  const { params } = target
  await person.tab.goto(server.http('/limits').replace('localhost', '127.0.0.1'))
  await person.tab.setContent(`<form method="${target.method}" enctype="${target.enctype}"
    action="http://localhost:${server.port}${target.action}">
    <input name="${params.title}" value="A walk"><input name="${params.url}" value="https://example.org/walk">
    <input name="${params.files[0].name}" type="file" multiple><button>Send</button></form>`)
  await person.tab.locator('[type=file]').setInputFiles([file('hills.png', picture(40, 30), 'image/png')])
  await person.tab.getByRole('button', { name: 'Send' }).click()
  await person.tab.getByRole('list', { name: 'Files of the page' }).getByText('hills.png').waitFor()
  assert.equal(await box(person).inputValue(), 'A walk\n\nhttps://example.org/walk')
  assert.equal(new URL(person.tab.url()).hash, '')
  assert.deepEqual(posts, [])
  assert.equal(await person.tab.evaluate(() => caches.has('watchfire-received')), false)
  // The page that sent the form has no icon.
  assert.deepEqual(
    person.pageErrors.filter((error) => !error.includes('/favicon.ico')),
    [],
  )
})

test('at 200 % zoom nothing is cut off, and with reduced motion nothing moves', async (t) => {
  const server = await startServer(t)
  const writer = await newVisitor(t, server)
  const link = await writer.sharePage({ text: '# Tea at five' })
  // A window of 1280 pixels at 200 % has 640 pixels of CSS.
  const reader = await newVisitor(t, server, { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2, reducedMotion: 'reduce' })
  for (const address of ['/', link, UNAVAILABLE_PAGE, '/nowhere']) {
    await reader.goTo(address)
    await reader.tab.locator('main h1').first().waitFor()
    const { wide, moving } = await reader.tab.evaluate(() => ({
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      moving: document.getAnimations().length,
    }))
    assert.deepEqual({ wide, moving }, { wide: 0, moving: 0 }, address)
  }
})

test('a reader needs no mouse: the link and the details are a few keys away', async (t) => {
  const [writer, reader] = await newVisitors(t, await startServer(t), 2)
  await reader.tab.addInitScript(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }))
  const link = await writer.sharePage({ text: '# Tea at five' })
  await reader.goTo(link)
  await reader.waitForText(/^2 people have this page$/)
  const { keyboard } = reader.tab
  await reader.tabTo('Share')
  await keyboard.press('Enter')
  // Outside a secure context nothing can be copied at once: the link is shown.
  await waitUntil(async () => (await reader.focused()) === 'Link to this page', 'the link has the focus')
  await keyboard.press('Shift+Tab')
  assert.equal(await reader.focused(), 'Details')
  await keyboard.press('Enter')
  await reader.tabTo('Keep sharing this page')
  await reader.tabTo('Copy and change')
  await reader.tabTo('Connections')
  reader.assertNoPageErrors()
})
