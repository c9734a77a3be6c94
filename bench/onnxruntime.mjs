// Times a model with ONNX Runtime: node onnxruntime.mjs MODEL THREADS SECONDS
// Prints the seconds for creating the session, then the median and the least
// seconds of a run. The npm package onnxruntime-node must be where node finds
// it (NODE_PATH does not serve modules, so its folder is in ORT).
import { createRequire } from 'node:module';

const [model, threads, seconds] = process.argv.slice(2);
const ort = createRequire((process.env.ORT ?? process.cwd()) + '/')('onnxruntime-node');

const now = () => Number(process.hrtime.bigint()) * 1e-9;

// Makes an input: small token numbers if it is of integers, any bytes if of u8.
function makeInput(meta) {
  const shape = meta.shape.map((d) => (typeof d === 'number' && d > 0 ? d : 1));
  const n = shape.reduce((a, b) => a * b, 1);
  if (meta.type === 'int64')
    return new ort.Tensor('int64', BigInt64Array.from({ length: n }, (_, i) => BigInt((i * 7919) % 1000)), shape);
  if (meta.type === 'uint8')
    return new ort.Tensor('uint8', Uint8Array.from({ length: n }, (_, i) => (i * 7919) % 251), shape);
  return new ort.Tensor('float32', Float32Array.from({ length: n }, (_, i) => ((i * 7919) % 1021) / 512 - 1), shape);
}

const before = now();
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: Number(threads),
  interOpNumThreads: 1,
  graphOptimizationLevel: 'all',
});
const created = now() - before;
const feeds = {};
session.inputMetadata.forEach((meta, i) => {
  // A second input of integers is a mask.
  feeds[meta.name] = makeInput(meta);
  if (i > 0 && meta.type === 'int64') feeds[meta.name].data.fill(1n);
});
await session.run(feeds);
const times = [];
const end = now() + Number(seconds);
while (times.length < 3 || now() < end) {
  const t = now();
  await session.run(feeds);
  times.push(now() - t);
}
times.sort((a, b) => a - b);
console.log(created.toFixed(4), times[times.length >> 1].toFixed(6), times[0].toFixed(6));
