import { beforeEach, expect, it } from 'vitest'
import { FakeClock } from '../../../test/fake-clock.ts'
import { encodeHeads, type PeerId } from '../../bitswap/index.ts'
import { type Bytes, type Cid, cidOf, concat, dagBytesMax, MemoryBlockStore, RAW } from '../../content/index.ts'
import {
  type Beginning,
  type Block,
  encodeBeginning,
  type Head,
  HEAD_BYTES,
  History,
  newSigningKey,
  signHead,
  type SigningKey,
} from '../../live/index.ts'
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
  download = new Download(cid, BYTES_MAX, new MemoryBlockStore(dagBytesMax(BYTES_MAX)), { ownsStore: true })
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
    const { block, head } = await history.append((number, node) => signHead(key, page, number, node.cid), entry)
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

/** Opens the live page, whose store takes notes; returns the numbers in the last note. */
function openWithNotes(): { noted: () => number[]; notes: () => Bytes[] } {
  let note = new Uint8Array()
  class Noting extends MemoryBlockStore {
    override putNote(bytes: Bytes): void {
      note = bytes
    }
  }
  const peers = { ids: () => [], send: () => {}, drop: () => {} }
  const store = new Noting(dagBytesMax(BYTES_MAX))
  live.open({ store, bytesMax: BYTES_MAX, clock: new FakeClock(), peers, onChange: () => download.followLive() })
  const numberAt = (i: number) => new DataView(note.buffer).getUint32(i * HEAD_BYTES + 48)
  return { noted: () => Array.from({ length: note.length / HEAD_BYTES }, (_, i) => numberAt(i)), notes: () => [note] }
}

it('notes the head whose entry is here and the newest, and verifies them when it begins again', async () => {
  const [first, second, third] = (await publish('one', 'two', 'three')) as [Appended, Appended, Appended]
  const { noted, notes } = openWithNotes()
  offer(first)
  deliver(first.node)
  expect(noted()).toEqual([1])
  offer(second)
  offer(third)
  expect(noted()).toEqual([1, 3])
  const damaged = third.head.bytes.slice()
  damaged[51]!--
  const again = await live.keptHeads([concat([damaged]), ...notes(), new Uint8Array(5)])
  expect(again.map(({ number }) => number)).toEqual([1, 3])
  deliver(third.node)
  deliver(second.node)
  expect(noted()).toEqual([3])
})

it('sends the heads of an earlier visit to the peers that came before them', async () => {
  const [first] = (await publish('one')) as [Appended]
  const sent: Bytes[] = []
  const clock = new FakeClock()
  const store = new MemoryBlockStore(dagBytesMax(BYTES_MAX))
  const send = (_peer: PeerId, message: Bytes) => void sent.push(message)
  const peers = { ids: () => ['00000000000000aa' as PeerId], send, drop: () => {} }
  live.open({ store, bytesMax: BYTES_MAX, clock, peers, onChange: () => download.followLive() })
  live.resume([first.head])
  await clock.until(() => sent.length > 0)
  expect(sent).toEqual([encodeHeads([first.head.bytes])])
})

it('takes the blocks that come with a head only if they are those of its entry, and the head is the newest', async () => {
  const [first, second] = (await publish('one', 'two')) as [Appended, Appended]
  const verify = async ({ head }: Appended, ...blocks: Block[]) => {
    const verified = await live.verifyVouched(
      head,
      blocks.map(({ bytes }) => bytes),
    )
    return verified.map(({ cid }) => cid.key)
  }
  expect(await verify(second, second.node, second.content)).toEqual([second.node.cid.key, second.content.cid.key])
  expect(await verify(second, second.node, first.content)).toEqual([second.node.cid.key])
  expect(await verify(second, first.node, first.content)).toEqual([])
  expect(await verify(second, { ...second.content }, second.node)).toEqual([])
  offer(second)
  expect(await verify(first, first.node, first.content)).toEqual([])
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
