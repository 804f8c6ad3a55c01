// Pages and folders that are too much for one tab: it says so, nothing is lost, and it stays usable.

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

import { blocksOf, folderOfLeaves } from '../browser/bitswap-messages.mjs'
import { drop } from '../browser/dropped-files.mjs'
import { addressOf, newVisitor, PageDriver, startServer } from '../browser/page-driver.mjs'
import { joinPage, LimitedHolder } from '../browser/raw-peer.mjs'
import { BY_RELAY_ONLY, launchWithProfile, REPORTED_QUOTA } from '../lib/chromium.mjs'
import { newFolder } from '../lib/folders.mjs'

const MIB = 1 << 20
/** Longest wait for a step, on a machine that may be very busy. */
const STEP_MS = 240_000
/** Blocks of 1 MiB: those of the page, and those that have room on the tab's disk and in its memory. */
const PAGE_BLOCKS = 4096
const DISK_BLOCKS = 200
const MEMORY_BLOCKS = 512
/** The most that a page may have. */
const FILES_MAX = 65_536
/** The most that one drop may add. */
const DROPPED_MAX = 20_000

test('a page of 4 GiB in a tab with 200 MiB of disk: the person is warned, a file that waits is not saved, and the loaded part stays', async (t) => {
  const leafAt = (i) => {
    const leaf = Buffer.alloc(MIB)
    leaf.writeUInt32BE(i, 0)
    return leaf
  }
  // Never sent, so that its reader waits for it.
  const last = Buffer.from('The last words.')
  const { root, blocks } = folderOfLeaves('huge.bin', PAGE_BLOCKS, leafAt, { 'last.txt': last })
  const isLast = ({ cid }) => blocksOf(last).blocks.has(cid.toString('hex'))
  const server = await startServer(t)
  const holder = new LimitedHolder(blocks, PAGE_BLOCKS)
  await joinPage(t, server, root, 'all', (wants, about) => {
    const { lacks, ...reply } = holder.answer(
      wants.filter((want) => !isLast(want)),
      about,
    )
    return { ...reply, lacks: [...lacks, ...wants.filter(isLast).map(({ cid }) => cid)] }
  })
  const context = await launchWithProfile(path.join(newFolder(), 'profile'), [...BY_RELAY_ONLY, ...REPORTED_QUOTA])
  t.after(() => context.close())
  const visitor = await PageDriver.inContext(server, context)
  const devtools = await context.newCDPSession(visitor.tab)
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: addressOf(server), quotaSize: DISK_BLOCKS * MIB })
  await visitor.goTo(`/p/${root}#filename=huge`)
  await visitor.waitForText(
    '4 GiB of this page are still missing, and this browser gives this site 200 MiB of disk space. It may not fit.',
    STEP_MS,
  )
  await visitor.waitForText('New data is kept in memory, up to 512 MiB.', STEP_MS)
  await visitor.tab.getByRole('button', { name: 'Save last.txt' }).click()
  await visitor.waitForText(
    /no room for more than \d+ MiB of this page\. Free some space and reload to continue\. The loaded part stays shared\./,
    STEP_MS,
  )
  await visitor.tab
    .getByRole('alert')
    .getByText(/^Could not save: This browser has no room for more than \d+ MiB of this page\. Free some space and reload/)
    .waitFor({ timeout: STEP_MS })

  const arrivedBytes = await visitor.tab.evaluate(() => Number(document.querySelector('.coming progress')?.getAttribute('value')))
  const fits = (DISK_BLOCKS + MEMORY_BLOCKS) * MIB
  assert.ok(arrivedBytes > fits * 0.95 && arrivedBytes <= fits, `${arrivedBytes} bytes are here`)
  await assertIsUsable(visitor)
  visitor.assertNoPageErrors()
})

test('more files than a page may have are refused with the limit, and the draft stays', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  await person.compose({ text: 'The words beside the files.' })
  await person.tab.locator('input[type=file]').evaluate((picker, count) => {
    const picked = new DataTransfer()
    for (let i = 0; i < count; i++) picked.items.add(new File([`${i}`], `${i}.txt`))
    const input = /** @type {HTMLInputElement} */ (picker)
    input.files = picked.files
    input.dispatchEvent(new Event('change', { bubbles: true }))
  }, FILES_MAX)
  const files = person.tab.getByRole('list', { name: 'Files' })
  await files.waitFor({ timeout: STEP_MS })
  await person.tab.getByRole('button', { name: 'Light this page' }).click({ timeout: STEP_MS })
  await person.tab
    .getByRole('alert')
    .getByText(/more than 65,536 (entries|blocks)/)
    .waitFor({ timeout: STEP_MS })
  assert.equal(await person.tab.getByRole('textbox', { name: 'Text of the page' }).inputValue(), 'The words beside the files.')
  assert.equal(await files.locator('li').count(), 1, 'one chip for all files')
  person.assertNoPageErrors()
})

test('a dropped folder of 100,000 empty files: the first are added, and the person learns how to share all', async (t) => {
  const place = path.join(newFolder(t), 'empty')
  for (let i = 0; i < 100; i++) {
    const folder = path.join(place, `part ${i}`)
    mkdirSync(folder, { recursive: true })
    for (let n = 0; n < 1000; n++) writeFileSync(path.join(folder, `${n}.txt`), '')
  }
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  await drop(person, [place])
  await person.waitForText('Only the first 20,000 files were added. Share a larger folder in a terminal, with “watchfire share”.', STEP_MS)
  await person.tab.getByRole('button', { name: 'Light this page' }).click({ timeout: STEP_MS })
  await person.waitUntilComplete(STEP_MS)
  await person.waitForText(`${DROPPED_MAX.toLocaleString('en')} files`, STEP_MS)
  await assertIsUsable(person)
  person.assertNoPageErrors()
})

/** Goes on to the home page, and writes. */
async function assertIsUsable(person) {
  await person.tab.getByRole('link', { name: 'Watchfire' }).click()
  const box = person.tab.getByRole('textbox', { name: 'Text of the page' })
  await box.fill('Still here.')
  await person.waitForText('Still here.')
}
