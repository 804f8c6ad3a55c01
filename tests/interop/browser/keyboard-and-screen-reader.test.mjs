// Everything can be done with a keyboard and read by a screen reader.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { newVisitor, startServer } from './page-driver.mjs'
import { file, picture } from './fixtures.mjs'

const CONTROLS = new Set([
  'button',
  'link',
  'textbox',
  'radio',
  'checkbox',
  'combobox',
  'progressbar',
  'img',
  'image',
  'Iframe',
  'switch',
  'log',
  'region',
])
const CONTRAST_MIN = 4.5

test('every control and picture has an accessible name', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  const assertNamed = async (where) => {
    const session = await person.tab.context().newCDPSession(person.tab)
    const { nodes } = await session.send('Accessibility.getFullAXTree')
    await session.detach()
    const nameless = nodes.filter(({ ignored, role, name }) => !ignored && CONTROLS.has(role?.value) && !name?.value)
    assert.deepEqual(
      nameless.map(({ role }) => role.value),
      [],
      where,
    )
    assert(
      nodes.some(({ role, name }) => role?.value === 'RootWebArea' && name?.value),
      `${where} has no title`,
    )
    assert.equal(await person.tab.locator('h1').count(), 1, `${where} has one first-level heading`)
  }
  await person.goTo('/')
  await person.waitForText('Up to')
  await person.compose({ text: 'Named.', files: [file('cat.png', picture(9, 9), 'image/png'), file('a.txt', 'a')] })
  await assertNamed('home')
  await person.tab.getByRole('button', { name: 'Light this page' }).click()
  await person.sharedLink()
  await person.waitForText('Named.')
  await assertNamed('a page')
  await person.goTo('/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m')
  await person.waitForText('Nobody has this page right now')
  await assertNamed('an unavailable page')
  await person.goTo('/p/nonsense')
  await person.waitForText('This page cannot be shown')
  await assertNamed('an invalid link')
  await person.goTo('/nowhere')
  await assertNamed('an unknown path')
})

test('a page can be shared with the keyboard alone', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  const { keyboard } = person.tab
  await tabTo(person, 'Text of the page')
  await keyboard.type('Typed without a mouse.')
  await tabTo(person, 'Light this page')
  await keyboard.press('Enter')
  await person.sharedLink()
  await person.waitForText('Typed without a mouse.')
  await tabTo(person, 'Copy link')
  await keyboard.press('Enter')
  await person.waitForText('Copied')

  await person.goTo('/')
  await tabTo(person, 'Text of the page')
  await keyboard.type('And once more.')
  await keyboard.press('Control+Enter')
  await person.sharedLink()
  await person.waitForText('And once more.')
  person.assertNoPageErrors()
})

test('the focused control is visibly focused', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  const seen = new Set()
  for (let n = 0; n < 20; n += 1) {
    await person.tab.keyboard.press('Tab')
    const { name, shown } = await person.tab.evaluate(() => {
      const { activeElement } = document
      // A hidden input may show its focus on its label.
      const candidates = [activeElement, activeElement.closest('label'), activeElement.nextElementSibling, activeElement.closest('form')]
      const shown = candidates.some((element) => {
        if (element === null) return false
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element)
        return (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none'
      })
      return { name: activeElement.outerHTML.slice(0, 120), shown }
    })
    if (name.startsWith('<body') || seen.has(name)) break
    seen.add(name)
    assert(shown, `the focus is not visible on ${name}`)
  }
  assert(seen.size >= 6, `only ${seen.size} controls can be reached`)
})

for (const colorScheme of ['light', 'dark']) {
  test(`text has enough contrast in the ${colorScheme} theme`, async (t) => {
    const person = await newVisitor(t, await startServer(t, { settings: { 'channels.open_rooms': true } }), { colorScheme })
    const faint = []
    const check = async (where) => faint.push(...(await person.tab.evaluate(faintTexts, CONTRAST_MIN)).map((words) => `${where}: ${words}`))
    await person.goTo('/')
    await person.waitForText('Up to')
    await check('home')
    await person.sharePage({ text: '# Words\n\nand [a link](https://example.org) `code`' })
    await person.waitForText('and a link')
    await check('page')
    await person.goTo('/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m')
    await person.waitForText('Nobody has this page right now')
    await check('unavailable page')
    await person.goTo('/chat')
    await person.waitForText('Connected')
    await check('chat')
    assert.deepEqual(faint, [])
  })
}

/** Presses Tab until the control of that name has the focus. */
async function tabTo({ tab }, name) {
  for (let n = 0; n < 40; n += 1) {
    await tab.keyboard.press('Tab')
    const focused = await tab.evaluate(() => {
      const { activeElement } = document
      return activeElement.getAttribute('aria-label') ?? activeElement.textContent
    })
    if (focused.includes(name)) return
  }
  assert.fail(`the keyboard does not reach ${name}`)
}

/** In the page: texts with too little contrast against the nearest painted background. */
function faintTexts(least) {
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const parse = (colour) => {
    pen.clearRect(0, 0, 1, 1)
    pen.fillStyle = colour
    pen.fillRect(0, 0, 1, 1)
    return [...pen.getImageData(0, 0, 1, 1).data]
  }
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => {
      const c = part / 255
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const over = (top, below) => top.slice(0, 3).map((part, i) => (part * top[3] + below[i] * (255 - top[3])) / 255)
  const behind = (element) => {
    const layers = []
    for (let at = element; at !== null; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor)
      if (colour[3] > 0) layers.push(colour)
      if (colour[3] === 255) break
    }
    return layers.reduceRight((below, top) => over(top, below), [255, 255, 255])
  }
  const faint = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const words = walker.currentNode.textContent.trim()
    const element = walker.currentNode.parentElement
    if (words === '' || !element.checkVisibility() || element.closest(':disabled, .unseen, .skip, script, noscript, svg')) continue
    const { color, fontSize, fontWeight } = getComputedStyle(element)
    const back = behind(element)
    const [a, b] = [light(over(parse(color), back)), light(back)].sort((x, y) => y - x)
    const ratio = (a + 0.05) / (b + 0.05)
    const isLarge = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && Number(fontWeight) >= 700)
    if (ratio < (isLarge ? 3 : least)) faint.push(`${words.slice(0, 40)} ${ratio.toFixed(2)}`)
  }
  return faint
}
