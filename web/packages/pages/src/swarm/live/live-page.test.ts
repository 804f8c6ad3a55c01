import { beforeEach, expect, it } from 'vitest'
import { type Cid, cidOf, dagBytesMax, MemoryBlockStore, RAW } from '../../content/index.ts'
import { type Beginning, type Block, encodeBeginning, type Head, History, newSigningKey, type SigningKey } from '../../live/index.ts'
import { Download } from '../download.ts'
import { LivePage } from './live-page.ts'

const BYTES_MAX = 1 << 20

interface Appended {
  readonly head: Head
  readonly node: Block
  readonly content: Block
}

let key: SigningKey
let page: Cid
let beginning: Beginning
let download: Download
let live: LivePage
beforeEach(async () => {
  key = await newSigningKey()
  beginning = { key: key.public, timeMs: 0, title: 'Log' }
  const { cid, bytes } = await encodeBeginning(beginning)
  page = cid
  download = new Download(cid, BYTES_MAX, new MemoryBlockStore(dagBytesMax(BYTES_MAX)), { isOurs: false })
  live = LivePage.begin(cid, bytes) as LivePage
  download.start()
  download.storeBlock(cid, bytes)
  download.begin(live, bytes)
})

/** The entries of a publisher, the first of which are these texts. */
async function publish(...texts: string[]): Promise<Appended[]> {
  const history = new History(page, beginning)
  const appended: Appended[] = []
  for (const text of texts) {
    const bytes = new TextEncoder().encode(text)
    const cid = await cidOf(RAW, bytes)
    const entry = { timeMs: 0, form: 'text', name: '', content: cid, contentBytes: bytes.length } as const
    const { block, head } = await history.append(key, entry)
    appended.push({ head, node: block, content: { cid, bytes } })
  }
  return appended
}

/** A head arrives. */
function offer({ head }: Appended): void {
  live.offer(head)
  download.followLive()
}

/** A block arrives that was requested. */
function deliver({ cid, bytes }: Block): void {
  download.storeBlock(cid, bytes)
}

const numbers = () => live.feed.entries.map(({ number }) => number)

it('takes the node of a head although a newer head came before the node', async () => {
  const [first, second, third] = (await publish('one', 'two', 'three')) as [Appended, Appended, Appended]
  offer(first)
  offer(second)
  deliver(first.node)
  expect(numbers()).toEqual([])
  deliver(second.node)
  expect(numbers()).toEqual([1, 2])
  for (const { content } of [first, second]) deliver(content)
  offer(third)
  deliver(third.node)
  deliver(third.content)
  expect(numbers()).toEqual([1, 2, 3])
  expect(download.isComplete).toBe(true)
})

it('takes the nodes of a branch that waits, although a newer head came before them', async () => {
  const all = await publish('one', 'two', 'three', 'four')
  const [first, second, third, fourth] = all as [Appended, Appended, Appended, Appended]
  offer(first)
  deliver(first.node)
  offer(second)
  offer(third)
  offer(fourth)
  for (const { node } of [second, third, fourth]) deliver(node)
  for (const { content } of all) deliver(content)
  expect(numbers()).toEqual([1, 2, 3, 4])
  expect(download.isComplete).toBe(true)
})

it('ignores a node that arrives after the page has split', async () => {
  const [first, second, third] = (await publish('one', 'two', 'three')) as [Appended, Appended, Appended]
  const [other] = (await publish('other')) as [Appended]
  offer(first)
  deliver(first.node)
  offer(second)
  offer(third)
  offer(other)
  expect(live.isSplit).toBe(true)
  for (const { node } of [second, third, other]) deliver(node)
  expect(numbers()).toEqual([1])
  expect(live.feed.splitAt).toBe(1)
})
