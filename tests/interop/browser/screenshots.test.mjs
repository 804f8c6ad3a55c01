// Screenshots of every view, in a wide light window and a narrow dark one, in out/.

import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { waitUntil } from '../lib/deadlines.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { newVisitor, startServer, WINDOWS } from './page-driver.mjs'
import { file, generated, picture } from './fixtures.mjs'

const OUT = fileURLToPath(new URL('../out', import.meta.url))
const NOTES = `# A night by the fire

We walked until the light was gone, and **made a fire** where the path meets the river.
It burned as long as we sat by it.

![The hills at dusk](hills.png)

- dry wood, and more of it than you think
- something warm to drink
- one good story each

> When the last of us left, it was dark again. That is all right.
`

for (const { shape, viewport, colorScheme } of WINDOWS) {
  test(`every view fits a ${shape} window in the ${colorScheme} theme`, { skip: shape === 'wide' && skipInShortRun }, async (t) => {
    await mkdir(OUT, { recursive: true })
    const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': 1_048_576, 'channels.open_rooms': true } })
    const [a, b] = [await newVisitor(t, server, { viewport, colorScheme }), await newVisitor(t, server, { viewport, colorScheme })]
    const capture = (person, place) => takeScreenshot(person, `${place}-${shape}-${colorScheme}`)

    await a.goTo('/')
    await a.waitForText('Up to')
    await capture(a, 'home')
    const story = { text: NOTES, files: [file('hills.png', picture(720, 260), 'image/png')] }
    await a.compose(story)
    await capture(a, 'draft')

    const link = await a.sharePage(story)
    await a.waitForPicture('The hills at dusk')
    await capture(a, 'shared')
    await b.goTo(link)
    await b.waitForStatus('2 people have this page')
    await capture(b, 'page')

    const slow = await a.sharePage({ files: [file('long-film.bin', generated(12_000_000))] })
    await b.goTo(slow)
    await b.waitForText(/[1-9]\d?% · /)
    await capture(b, 'loading')
    await b.openDetails()
    await b.tab.getByRole('button', { name: 'Connections' }).click()
    await b.waitForText('Peers of this tab')
    await capture(b, 'connections')
    await b.tab.getByRole('switch', { name: 'Keep sharing this page' }).check()
    await b.tab.getByRole('link', { name: 'Watchfire' }).click()
    await b.tab.getByRole('link', { name: 'Manage them' }).click()
    await b.waitForText(/% loaded$|MiB$/)
    await capture(b, 'kept')
    await b.goTo('/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m')
    await b.waitForText('Nobody has this page right now')
    await capture(b, 'unavailable')
    await b.goTo('/p/nonsense')
    await b.waitForText('This page cannot be shown')
    await capture(b, 'invalid-link')

    await a.goTo('/chat')
    await a.waitForText('Connected')
    await a.tab.getByRole('textbox', { name: 'Your name' }).fill('Ann')
    for (const words of ['Is anybody there?', 'The fire is warm.']) {
      await a.tab.getByRole('textbox', { name: 'Message' }).fill(words)
      await a.tab.keyboard.press('Enter')
      await a.tab.getByRole('log').getByText(words).waitFor()
      await waitUntil(async () => (await a.tab.getByRole('textbox', { name: 'Message' }).inputValue()) === '', 'the message is sent')
    }
    await capture(a, 'chat')
    const html = await a.sharePage({ files: [file('party.html', '<h1>A party</h1><script>document.body.append("with scripts")</script>')] })
    assert.match(html, /party\.html/)
    await a.tab.getByRole('button', { name: 'Run its scripts' }).waitFor()
    await a.tab.frameLocator('iframe').frameLocator('iframe').getByRole('heading', { name: 'A party' }).waitFor()
    await capture(a, 'html')
    const longName = `${'a-long-name-'.repeat(8)}.js`
    await a.sharePage({
      files: [file('readme.txt', 'Read me.'), file(longName, 'let a = 1'), file('hills.png', picture(72, 26), 'image/png')],
    })
    await a.tab.getByRole('link', { name: longName }).waitFor()
    await capture(a, 'folder')

    await a.goTo('/')
    await a.tab.getByRole('switch', { name: 'Live' }).check()
    await a.tab.getByRole('textbox', { name: 'Title of the page' }).fill('Harbour log')
    await a.compose({ text: 'The **fog** lifts.', files: [file('hills.png', picture(720, 260), 'image/png')] })
    await capture(a, 'live-draft')
    await a.tab.getByRole('button', { name: 'Light this page' }).click()
    await a.waitForText('Live · 1 entry')
    await a.waitForPicture('hills')
    await capture(a, 'live-own')
    await b.goTo(await a.sharedLink())
    await b.waitForPicture('hills')
    await capture(b, 'live')
    await a.leave()
    await b.waitForText('You are the last one')
    await b.waitForText('No entries can follow')
    await capture(b, 'last-one')
    for (const person of [a, b]) person.assertNoPageErrors()
  })
}

async function takeScreenshot({ tab }, name) {
  const { scroll, client } = await tab.evaluate(() => {
    const { scrollWidth: scroll, clientWidth: client } = document.documentElement
    return { scroll, client }
  })
  await tab.screenshot({ path: path.join(OUT, `${name}.png`), animations: 'disabled' })
  assert(scroll <= client, `${name} is ${scroll} wide in a window of ${client}`)
}
