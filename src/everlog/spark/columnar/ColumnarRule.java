// Batch reads of the format `everlog` as columns. Spark 4.3 turns each Arrow batch of a Python source into rows, one
// by one, and copies each row once more; its own Parquet reader hands over columns, from which rows are made once,
// by generated code. These classes do for our source what Spark's do for Parquet: the Python side is the same.
//
// Compiled on the driver by the compiler that Spark brings along, in Java as that one knows it: no lambdas, no
// inference of types.
package everlog.spark.columnar;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomTaskMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.AccumulatorV2;

/** Has Spark read columns where a plan reads our format; all else of a plan stays as it is. */
public final class ColumnarRule extends Rule {
  public TreeNode apply(TreeNode plan) {
    SQLConf conf = SQLConf.get();
    // Spark checks the columns of each batch then, where it makes rows of them.
    if (conf.pysparkArrowValidateSchema() || conf.arrowUseLargeVarTypes()) return plan;
    if (!"true".equals(conf.getConfString("spark.everlog.columnarReads", "true"))) return plan;
    return isolated() ? plan : plan.transform(new ColumnarSwap());
  }

  /** Whether tasks see the jars of this session alone, and so not these classes. A pipeline's session is so. */
  private static boolean isolated() {
    scala.Option session = SparkSession.getActiveSession();
    return session.isEmpty() || ((SparkSession) session.get()).artifactManager().state() != null;
  }
}

final class ColumnarSwap extends scala.runtime.AbstractPartialFunction {
  public boolean isDefinedAt(Object node) {
    if (!(node instanceof DataSourceV2ScanRelation)) return false;
    DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
    return relation.scan().getClass() == PythonScan.class
        && "everlog".equalsIgnoreCase(relation.relation().table().name())
        && ColumnarScan.knows(relation.scan().readSchema());
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
    Object[] parts = new Object[relation.productArity()];
    for (int i = 0; i < parts.length; i++) {
      Object part = relation.productElement(i);
      parts[i] = part == relation.scan() ? new ColumnarScan((PythonScan) part) : part;
    }
    return relation.makeCopy(parts);
  }
}

final class ColumnarScan implements Scan, SupportsMetadata {
  private static final java.util.List KNOWN = java.util.Arrays.asList(new String[] {
    "BinaryType", "StringType", "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType",
    "DoubleType", "DecimalType", "DateType", "TimestampType", "TimestampNTZType", "StructType", "ArrayType", "MapType",
  });
  private final PythonScan scan;

  ColumnarScan(PythonScan scan) {
    this.scan = scan;
  }

  /** Whether all columns are of types that `ReadColumn` hands through. */
  static boolean knows(StructType schema) {
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) {
      DataType type = fields[i].dataType();
      boolean known = KNOWN.contains(type.getClass().getSimpleName().replace("$", ""));
      if (!known) return false;
    }
    return fields.length > 0;
  }

  public Batch toBatch() {
    return new ColumnarBatchRead(scan.toBatch());
  }

  public StructType readSchema() {
    return scan.readSchema();
  }

  public String description() {
    return scan.description();
  }

  public CustomMetric[] supportedCustomMetrics() {
    return scan.supportedCustomMetrics();
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return scan.reportDriverMetrics();
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Scan.ColumnarSupportMode.SUPPORTED;
  }

  public scala.collection.immutable.Map getMetaData() {
    return scan.getMetaData();
  }
}

final class ColumnarBatchRead implements Batch {
  private final Batch rows;

  ColumnarBatchRead(Batch rows) {
    this.rows = rows;
  }

  public InputPartition[] planInputPartitions() {
    return rows.planInputPartitions();
  }

  public PartitionReaderFactory createReaderFactory() {
    return new ColumnarFactory((PythonPartitionReaderFactory) rows.createReaderFactory());
  }
}

final class ColumnarFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;
  private final PythonPartitionReaderFactory rows;

  ColumnarFactory(PythonPartitionReaderFactory rows) {
    this.rows = rows;
  }

  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  public PartitionReader createReader(InputPartition partition) {
    return rows.createReader(partition);
  }

  public PartitionReader createColumnarReader(InputPartition partition) {
    return new ColumnarReader(rows, (PythonInputPartition) partition);
  }
}

/** Runs a task's Python as `PythonPartitionReaderFactory` does, and leaves its batches what they are. */
final class ColumnarReader implements PartitionReader {
  private final scala.collection.immutable.Map metrics = PythonCustomMetric.pythonMetrics();
  private final int width;
  private final scala.collection.Iterator batches;
  private ColumnarBatch batch;

  ColumnarReader(PythonPartitionReaderFactory rows, PythonInputPartition partition) {
    UserDefinedPythonDataSource source =
        rows.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$source;
    byte[] function =
        rows.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$pickledReadFunc;
    StructType schema =
        rows.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$outputSchema;
    scala.Option artifacts =
        rows.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$jobArtifactUUID;
    scala.Option session =
        rows.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$sessionUUID;
    width = schema.length();
    SQLConf conf = SQLConf.get();
    TaskContext context = TaskContext.get();
    ArrowPythonRunner runner = new ArrowPythonRunner(
        one(new scala.Tuple2(
            new ChainedPythonFunctions(one(source.createPythonFunction(function))),
            Long.valueOf(NamedExpression$.MODULE$.newExprId().id()))),
        PythonEvalType.SQL_MAP_ARROW_ITER_UDF(),
        new int[][] {new int[] {0}},
        new StructType().add("struct", UserDefinedPythonDataSource.readInputSchema()),
        conf.sessionLocalTimeZone(),
        conf.arrowUseLargeVarTypes(),
        ArrowPythonRunner.getPythonRunnerConfMap(conf),
        metrics,
        artifacts,
        session);
    // The partition is all the input: a batch of one row, within a struct as Python expects it.
    InternalRow input = row(row(partition.pickedPartition()));
    batches = runner.compute(single(single(input)), context.partitionId(), context);
  }

  private static InternalRow row(Object value) {
    return new GenericInternalRow(new Object[] {value});
  }

  private static scala.collection.immutable.Seq one(Object item) {
    return (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$.$colon$colon(item);
  }

  private static scala.collection.Iterator single(Object item) {
    return scala.collection.Iterator$.MODULE$.single(item);
  }

  public boolean next() {
    if (!batches.hasNext()) return false;
    ColumnarBatch received = (ColumnarBatch) batches.next();
    ArrowColumnVector struct = (ArrowColumnVector) received.column(0);
    ColumnVector[] columns = new ColumnVector[width];
    for (int i = 0; i < width; i++) columns[i] = ReadColumn.of(struct.getChild(i), received.numRows());
    batch = new ColumnarBatch(columns, received.numRows());
    return true;
  }

  public Object get() {
    return batch;
  }

  public CustomTaskMetric[] currentMetricsValues() {
    CustomTaskMetric[] values = new CustomTaskMetric[metrics.size()];
    scala.collection.Iterator each = metrics.iterator();
    int at = 0;
    while (each.hasNext()) {
      scala.Tuple2 metric = (scala.Tuple2) each.next();
      AccumulatorV2 counted = (AccumulatorV2) metric._2();
      values[at] = new PythonCustomTaskMetric((String) metric._1(), ((Long) counted.value()).longValue());
      at++;
    }
    return values;
  }

  public void close() {
    // What it has is freed when the task ends.
  }
}

/**
 * A column of the batch at hand, in memory that Arrow's reader fills anew for the next batch. It is no
 * ArrowColumnVector as Spark takes those to be good for longer; all others it takes to be as Parquet's are.
 */
class ReadColumn extends ColumnVector {
  protected final ArrowColumnVector arrow;

  ReadColumn(ArrowColumnVector arrow) {
    super(arrow.dataType());
    this.arrow = arrow;
  }

  /** A column of so many rows; IndexOutOfBoundsException if its buffers are too small for them. */
  static ReadColumn of(ArrowColumnVector arrow, int rows) {
    ValueVector vector = arrow.getValueVector();
    if (rows == 0) return new ReadColumn(arrow);
    if (vector instanceof VarBinaryVector || vector instanceof VarCharVector) {
      BaseVariableWidthVector bytes = (BaseVariableWidthVector) vector;
      atLeast(bytes.getOffsetBuffer().capacity(), 4L * (rows + 1));
      return new BytesColumn(arrow, bytes, rows);
    }
    DataType type = arrow.dataType();
    boolean narrow = type == DataTypes.IntegerType || type == DataTypes.DateType;
    boolean wide = type == DataTypes.LongType || type == DataTypes.TimestampType || type == DataTypes.TimestampNTZType;
    if ((narrow || wide) && vector instanceof BaseFixedWidthVector) {
      BaseFixedWidthVector numbers = (BaseFixedWidthVector) vector;
      if (numbers.getTypeWidth() == (wide ? 8 : 4)) {
        atLeast(numbers.getDataBuffer().capacity(), (wide ? 8L : 4L) * rows);
        return new NumbersColumn(arrow, numbers, rows);
      }
    }
    return new ReadColumn(arrow);
  }

  /** Where the bitmap of a vector is, which has a bit for each row that is not null; 0 if none is. */
  static long bitmap(FieldVector vector, int rows) {
    if (vector.getNullCount() == 0) return 0L;
    atLeast(vector.getValidityBuffer().capacity(), (rows + 7L) / 8L);
    return vector.getValidityBuffer().memoryAddress();
  }

  private static void atLeast(long found, long expected) {
    if (found < expected)
      throw new IndexOutOfBoundsException("a buffer of Arrow has " + found + " bytes, expected " + expected);
  }

  public void close() {
    // The reader owns the memory.
  }

  public void closeIfFreeable() {}

  public boolean hasNull() {
    return arrow.hasNull();
  }

  public int numNulls() {
    return arrow.numNulls();
  }

  public boolean isNullAt(int row) {
    return arrow.isNullAt(row);
  }

  public boolean getBoolean(int row) {
    return arrow.getBoolean(row);
  }

  public byte getByte(int row) {
    return arrow.getByte(row);
  }

  public short getShort(int row) {
    return arrow.getShort(row);
  }

  public int getInt(int row) {
    return arrow.getInt(row);
  }

  public long getLong(int row) {
    return arrow.getLong(row);
  }

  public float getFloat(int row) {
    return arrow.getFloat(row);
  }

  public double getDouble(int row) {
    return arrow.getDouble(row);
  }

  public ColumnarArray getArray(int row) {
    return arrow.getArray(row);
  }

  public ColumnarMap getMap(int row) {
    return arrow.getMap(row);
  }

  public Decimal getDecimal(int row, int precision, int scale) {
    return arrow.getDecimal(row, precision, scale);
  }

  public UTF8String getUTF8String(int row) {
    return arrow.getUTF8String(row);
  }

  public byte[] getBinary(int row) {
    return arrow.getBinary(row);
  }

  public ColumnVector getChild(int at) {
    return (ColumnVector) arrow.getChild(at);
  }
}

/** Whole numbers, dates and timestamps, read from where they are. */
final class NumbersColumn extends ReadColumn {
  private final long bitmap;
  private final long data;

  NumbersColumn(ArrowColumnVector arrow, BaseFixedWidthVector vector, int rows) {
    super(arrow);
    bitmap = ReadColumn.bitmap(vector, rows);
    data = vector.getDataBuffer().memoryAddress();
  }

  public boolean isNullAt(int row) {
    return bitmap != 0L && (Platform.getByte(null, bitmap + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  public int getInt(int row) {
    return Platform.getInt(null, data + 4L * row);
  }

  public long getLong(int row) {
    return Platform.getLong(null, data + 8L * row);
  }
}

/** Binary and text. Each value is seen to lie within the buffer: whoever made it wrong gets an error, not a crash. */
final class BytesColumn extends ReadColumn {
  private final long bitmap;
  private final long offsets;
  private final long data;
  private final long size;

  BytesColumn(ArrowColumnVector arrow, BaseVariableWidthVector vector, int rows) {
    super(arrow);
    bitmap = ReadColumn.bitmap(vector, rows);
    offsets = vector.getOffsetBuffer().memoryAddress();
    data = vector.getDataBuffer().memoryAddress();
    size = vector.getDataBuffer().capacity();
  }

  public boolean isNullAt(int row) {
    return bitmap != 0L && (Platform.getByte(null, bitmap + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  public byte[] getBinary(int row) {
    if (isNullAt(row)) return null;
    int start = Platform.getInt(null, offsets + 4L * row);
    int end = Platform.getInt(null, offsets + 4L * row + 4L);
    if (start < 0 || end < start || end > size) throw outside(row, start, end);
    byte[] bytes = new byte[end - start];
    Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, end - start);
    return bytes;
  }

  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) return null;
    int start = Platform.getInt(null, offsets + 4L * row);
    int end = Platform.getInt(null, offsets + 4L * row + 4L);
    if (start < 0 || end < start || end > size) throw outside(row, start, end);
    return UTF8String.fromAddress(null, data + start, end - start);
  }

  private IndexOutOfBoundsException outside(int row, int start, int end) {
    return new IndexOutOfBoundsException(
        "row " + row + " of a column of Arrow is at " + start + " to " + end + " of " + size + " bytes");
  }
}
