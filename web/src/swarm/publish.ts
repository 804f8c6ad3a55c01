import type { Publication, PublishOptions, Source } from './api.ts'

/** Chunks and hashes the sources and builds their DAG, so that `openPage` can serve them. */
export function publish(_sources: readonly Source[], _options: PublishOptions = {}): Promise<Publication> {
  return Promise.reject(new Error('not yet'))
}
