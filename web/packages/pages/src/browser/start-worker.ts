import { trusted } from './trusted-types.ts'

/**
 * Starts a worker from its own file, which some bundlers make. Where there is none (esbuild, Rollup, and Vite while developing), and
 * where the file is on another origin, it is started from its code: `packages/build.js` writes that of the file in the place of `code`.
 * Rejects if the policy of the site forbids both. A worker sends a message when it has started.
 */
export function startWorker(fromFile: () => Worker, code: string): Promise<Worker> {
  return started(fromFile).catch(() => started(() => new Worker(trusted(URL.createObjectURL(new Blob([code])), 'createScriptURL'))))
}

const started = (start: () => Worker): Promise<Worker> =>
  new Promise((resolve, reject) => {
    const worker = start()
    worker.onmessage = () => resolve(worker)
    worker.onerror = reject
  })
