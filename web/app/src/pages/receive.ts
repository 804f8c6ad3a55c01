import { RECEIVED_HASH } from '../service-worker/received-hash.ts'
import { takeReceived } from '../service-worker/received.ts'
import { replaceAddress } from '../ui/replace-address.ts'
import { isBlank, type Draft } from './draft.ts'
import { withFiles } from './draft-files.ts'

/** Adds what the share sheet of the system has sent to the draft, when the address says that there is something. */
export async function receive(change: (change: (before: Draft) => Draft) => void): Promise<void> {
  if (location.hash !== RECEIVED_HASH) return
  const { text, files } = await takeReceived()
  replaceAddress('/')
  change((before) => withFiles({ ...before, text: [before.text, text].filter((part) => !isBlank(part)).join('\n\n') }, files))
}
