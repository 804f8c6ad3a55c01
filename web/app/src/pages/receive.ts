import { dropped } from '../messages/dropped.ts'
import { NOT_RECEIVED_HASH, RECEIVED_HASH } from '../service-worker/received-hash.ts'
import { takeReceived } from '../service-worker/received.ts'
import { replaceAddress } from '../ui/replace-address.ts'
import { isBlank, type Draft } from './draft.ts'
import { withFiles } from './draft-files.ts'

/**
 * Adds what the share sheet of the system has sent to the draft, when the address says that there is something. Resolves with a sentence
 * for people if it is lost.
 */
export async function receive(change: (change: (before: Draft) => Draft) => void): Promise<string | null> {
  const { hash } = location
  if (hash !== RECEIVED_HASH && hash !== NOT_RECEIVED_HASH) return null
  const { text, files } = await takeReceived()
  replaceAddress('/')
  change((before) => withFiles({ ...before, text: [before.text, text].filter((part) => !isBlank(part)).join('\n\n') }, files))
  if (hash === RECEIVED_HASH) return null
  await navigator.serviceWorker?.register('/worker.js', { scope: '/', updateViaCache: 'none' }).catch(() => undefined)
  return dropped('notReceived')
}
