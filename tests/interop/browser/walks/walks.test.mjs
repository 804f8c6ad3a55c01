// A first visit with a screen reader, with a keyboard only, at 200 % zoom, and with reduced motion. Each walk is recorded in
// docs/browser/walks.md, and the test fails when the record no longer says what happens. `make walks` writes it.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, test } from 'node:test'

import { waitUntil } from '../../lib/deadlines.mjs'
import { newVisitor, startServer } from '../page-driver.mjs'
import { noteAnnouncements, takeAnnounced, Walk } from './recording.mjs'
import { readAloud, readFocus } from './spoken.mjs'

const RECORD = new URL('../../../../docs/browser/walks.md', import.meta.url)
const HEAD = `# Walks through a first visit

Somebody visits Watchfire for the first time: writes a page, shares it, reads the page of somebody else, and opens two links that
lead to nothing. \`make walks\` records the visit in Chromium and writes this page; \`make test-walks\` compares. In each view axe finds
nothing by the rules of WCAG 2.2 AA. The texts are those of Chromium's accessibility tree; a screen reader may use other words for a
role.
`
const UNAVAILABLE_PAGE = '/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m'
const TEXT = '# Tea at five\n\nBring **cups**.'
const OF_A_FRIEND = '# The boat\n\nIt leaves at *nine*.\n\n- a lamp\n- a story'
const ONE_HERE = 'Only you are here now'

const walks = new Map()
after(() => {
  if (process.env.WALKS_WRITE === '1') writeFileSync(RECORD, `${HEAD}\n${[...walks.values()].join('\n').trimEnd()}\n`)
})

function compare(walk, name) {
  walks.set(name, walk)
  if (process.env.WALKS_WRITE === '1') return
  const recorded = readFileSync(RECORD, 'utf8').split(/^(?=## )/m)
  const isRecorded = recorded.some((section) => section.trimEnd() === String(walk).trimEnd())
  assert(isRecorded, `docs/browser/walks.md has another walk: run \`make walks\`\n${walk}`)
}

/** A visitor whose announcements are noted. */
async function walker(t, server, options = {}) {
  const person = await newVisitor(t, server, { locale: 'en-GB', permissions: ['notifications', 'clipboard-write'], ...options })
  await noteAnnouncements(person.tab.context())
  return person
}

test('a first visit with a screen reader', async (t) => {
  const server = await startServer(t)
  const person = await walker(t, server)
  const { tab } = person
  const walk = new Walk('With a screen reader', 'Each line is one thing that is read; `>` marks what a live region announces by itself.')
  const announced = async () => (await takeAnnounced(person)).map((text) => `> ${text}`)

  await person.goTo('/')
  await person.waitForText(ONE_HERE)
  await person.waitForText('Up to')
  await person.waitForText('The page grows')
  walk.step('The home page, from its start:', await readAloud(tab))
  await walk.check(person, 'the home page')

  await takeAnnounced(person)
  await tab.getByRole('textbox', { name: 'Text of the page' }).fill(TEXT)
  await tab.getByRole('region', { name: 'Preview' }).getByText('cups').waitFor()
  walk.step('A text is written. The preview:', await readAloud(tab, '.preview'))
  await walk.check(person, 'the draft')

  await tab.getByRole('button', { name: 'Light this page' }).click()
  await person.waitForText('Only you have this page')
  await person.waitForText('Bring')
  await takeAnnounced(person)
  walk.step('*Light this page and get a link* is pressed. The page:', await readAloud(tab, 'main'))
  await walk.check(person, 'the page')

  const friend = await newVisitor(t, server)
  await friend.goTo(tab.url())
  await person.waitForText('2 people have this page')
  walk.step('A friend opens the link.', await announced())

  const link = await friend.sharePage({ text: OF_A_FRIEND })
  await person.goTo(link)
  await person.waitForText(/^2 people have this page$/)
  await person.waitForText('a story')
  await takeAnnounced(person)
  walk.step('The page of a friend is opened:', await readAloud(tab, 'main'))
  await walk.check(person, 'the page of a friend')
  await tab.getByRole('button', { name: 'Details', exact: true }).click()
  await tab.getByRole('button', { name: 'Copy and change' }).waitFor()
  walk.step('*Details* is pressed:', await readAloud(tab, '.status-panel'))
  await walk.check(person, 'the details')

  await person.goTo(UNAVAILABLE_PAGE)
  await tab.getByRole('button', { name: 'Tell me when it is back' }).waitFor()
  walk.step('The link of a page that nobody has:', await readAloud(tab, 'main'))
  await walk.check(person, 'a page that nobody has')
  await takeAnnounced(person)
  await tab.getByRole('button', { name: 'Tell me when it is back' }).click()
  await person.waitForText('You will get a notification')
  walk.step('*Tell me when it is back* is pressed.', await announced())

  await person.goTo('/p/nonsense')
  await person.waitForText('This page cannot be shown')
  walk.step('A link that is cut off:', await readAloud(tab, 'main'))
  await walk.check(person, 'a link that is cut off')
  person.assertNoPageErrors()
  compare(walk, 'screen reader')
})

test('a first visit with a keyboard only', async (t) => {
  const server = await startServer(t)
  const person = await walker(t, server)
  const { keyboard } = person.tab
  const walk = new Walk('With a keyboard only', 'Each line is the control that has the focus after a press of Tab, in order.')
  /** Presses Tab until the focus leaves the page; returns each control, and asserts that one sees where the focus is. */
  const tabThrough = async () => {
    const controls = []
    while (controls.length < 40) {
      await keyboard.press('Tab')
      const control = await readFocus(person.tab)
      if (control === 'nothing' || control === controls[0]) break
      assert(await showsFocus(person), `${control} shows no focus`)
      controls.push(control)
    }
    return controls
  }

  await person.goTo('/')
  await person.waitForText('Up to')
  await person.waitForText('The page grows')
  await person.waitForText(ONE_HERE)
  walk.step('The home page:', await tabThrough())
  await person.tab.getByRole('textbox', { name: 'Text of the page' }).focus()
  await keyboard.insertText(TEXT)
  await keyboard.press('Control+Enter')
  await person.waitForText('Only you have this page')
  await person.waitForText('Bring')
  await waitUntil(async () => /main|link/i.test(await readFocus(person.tab)), 'the focus is in the page')
  walk.step('A text is written, and Ctrl + Enter makes the page. The focus is then on:', [await readFocus(person.tab)])
  walk.step('From there:', await tabThrough())

  const friend = await newVisitor(t, server)
  await person.goTo(await friend.sharePage({ text: OF_A_FRIEND }))
  await person.waitForText(/^2 people have this page$/)
  walk.step('The page of a friend:', await tabThrough())
  await person.tabTo('Share')
  await keyboard.press('Enter')
  await waitUntil(async () => (await person.focused()) === 'Copied', 'the link is copied')
  walk.step('Enter on *Share* copies the link. The focus stays on:', [await readFocus(person.tab)])

  await person.goTo(UNAVAILABLE_PAGE)
  await person.tab.getByRole('button', { name: 'Tell me when it is back' }).waitFor()
  walk.step('The link of a page that nobody has:', await tabThrough())
  await person.goTo('/p/nonsense')
  await person.waitForText('This page cannot be shown')
  walk.step('A link that is cut off:', await tabThrough())
  person.assertNoPageErrors()
  compare(walk, 'keyboard')
})

test('a first visit at 200 % zoom, and at 400 %', async (t) => {
  const server = await startServer(t)
  const friend = await newVisitor(t, server)
  const link = await friend.sharePage({ text: OF_A_FRIEND })
  const walk = new Walk(
    'At 200 % and 400 % zoom',
    'A window of 1280 × 800 pixels has 640 × 400 and 320 × 200 pixels of CSS at these. In each view nothing is cut off, nothing scrolls sideways, and each control has at least 24 × 24 pixels.',
  )
  for (const [zoom, viewport] of Object.entries({ '200 %': { width: 640, height: 400 }, '400 %': { width: 320, height: 200 } })) {
    const person = await walker(t, server, { viewport, deviceScaleFactor: 1280 / viewport.width })
    const seen = []
    for (const [name, address] of viewsOf(link)) {
      await person.goTo(address)
      await person.tab.locator('main h1').first().waitFor()
      if (address === link) {
        await person.waitForText(/^2 people have this page$|^[34] people/)
        await person.openDetails()
        await person.tab.getByRole('button', { name: 'Copy and change' }).waitFor()
      }
      if (address === UNAVAILABLE_PAGE) await person.tab.getByRole('button', { name: 'Tell me when it is back' }).waitFor()
      if (name === 'home') {
        await person.waitForText('What are the limits?')
        await person.tab.getByRole('switch', { name: 'Live' }).waitFor()
      }
      const { wide, cut, small, controls } = await person.tab.evaluate(measure)
      assert.deepEqual({ wide, cut, small }, { wide: 0, cut: [], small: [] }, `${name} at ${zoom}`)
      seen.push(`${name}: ${controls} controls, all reached by scrolling down`)
      await walk.check(person, `${name} at ${zoom}`)
    }
    walk.step(`${zoom}:`, seen)
  }
  compare(walk, 'zoom')
})

test('a first visit with reduced motion', async (t) => {
  const server = await startServer(t)
  const friend = await newVisitor(t, server)
  const link = await friend.sharePage({ text: OF_A_FRIEND })
  const person = await walker(t, server, { reducedMotion: 'reduce' })
  const walk = new Walk('With reduced motion', 'The animations that run in each view while it opens.')
  const seen = []
  for (const [name, address] of viewsOf(link)) {
    await person.goTo(address)
    await person.tab.locator('main h1').first().waitFor()
    const moving = await person.tab.evaluate(() => document.getAnimations().length)
    assert.equal(moving, 0, name)
    seen.push(`${name}: none`)
    await walk.check(person, `${name} with reduced motion`)
  }
  walk.step('Each view:', seen)
  compare(walk, 'motion')
})

function viewsOf(link) {
  return Object.entries({
    home: '/',
    'the page of a friend': link,
    'a page that nobody has': UNAVAILABLE_PAGE,
    'a link that is cut off': '/p/nonsense',
    'an unknown address': '/nowhere',
  })
}

/** Whether one sees where the focus is: a ring around the control or its label, or a cursor in a text field. */
function showsFocus({ tab }) {
  return tab.evaluate(() => {
    const focused = document.activeElement
    const ring = (element) =>
      element instanceof Element &&
      getComputedStyle(element).outlineStyle !== 'none' &&
      parseFloat(getComputedStyle(element).outlineWidth) >= 2
    return focused.matches('textarea') || ring(focused) || ring(focused.nextElementSibling) || ring(focused.closest('label'))
  })
}

/** Elements that are too wide, cut off at a side, or too small to press. Runs in the page. */
function measure() {
  const { scrollWidth, clientWidth } = document.documentElement
  const isUnseen = (element) => element.closest('.unseen, .skip') !== null || element.getBoundingClientRect().width <= 1
  const controls = [...document.querySelectorAll('a[href], button, input, textarea, select, summary')].filter(
    (element) => element.checkVisibility() && !isUnseen(element),
  )
  const say = (element) => element.outerHTML.slice(0, 100)
  const isInText = (element) => element.matches('p a, li a, .kept-count')
  return {
    wide: scrollWidth - clientWidth,
    cut: controls
      .filter((element) => element.getBoundingClientRect().left < 0 || element.getBoundingClientRect().right > clientWidth + 0.5)
      .map(say),
    small: controls
      .filter((element) => !isInText(element) && !element.matches('[type=radio], [type=checkbox], [type=file]'))
      .filter((element) => Math.min(element.getBoundingClientRect().width, element.getBoundingClientRect().height) < 24)
      .map(say),
    controls: controls.length,
  }
}
